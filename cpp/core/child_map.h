// The children of one node by a 64-bit hash. Different children may have the same hash: the caller
// says which one it means. Grows in small steps, so that no call takes long, however many there
// are.
//
// Does not own what the pointers point to. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace hicache {

class ChildMap {
  public:
    // Requires: `child` is not in the map.
    void add(uint64_t hash, void* child);
    // False, nothing changed: `child` is not there under that hash.
    bool remove(uint64_t hash, void* child);
    bool replace(uint64_t hash, void* child, void* by);

    // The first child with that hash for which is_it(child) is true; nullptr without one.
    template <typename Predicate>
    [[nodiscard]] void* find(uint64_t hash, const Predicate& is_it) const {
        for (const Entry& entry : part_of(hash).entries) {
            if (entry.hash == hash && is_it(entry.child)) return entry.child;
        }
        return nullptr;
    }

    [[nodiscard]] size_t size() const { return size_; }
    // In the order in which they were added; one that replaced another has its place.
    [[nodiscard]] std::vector<void*> children() const;
    void clear();

  private:
    struct Entry {
        uint64_t hash;
        uint64_t number;
        void* child;
    };
    static constexpr size_t kFan = 16;   // parts that a full part is divided into
    static constexpr size_t kFull = 24;  // entries
    static constexpr int kBits = 4;      // of the hash, a level
    static constexpr int kLevels = 16;

    struct Part {
        std::vector<Entry> entries;
        std::unique_ptr<std::array<Part, kFan>> parts;
    };

    [[nodiscard]] const Part& part_of(uint64_t hash) const;
    Entry* entry_of(uint64_t hash, void* child);
    static void divide(Part& part, int level);

    Part top_;
    size_t size_ = 0;
    uint64_t next_number_ = 0;
};

}  // namespace hicache
