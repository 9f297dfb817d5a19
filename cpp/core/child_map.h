// The children of one node by a hash, in the order in which they came. Different children may have
// the same hash: the caller says which one it means. Grows in small steps, so that no call but
// children() and clear() takes long, however many there are.
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
    // Requires: `child` is not in the map. Throws: std::length_error beyond 2^32 - 2 children.
    void add(uint32_t hash, void* child);
    // False, nothing changed: `child` is not there under that hash.
    bool remove(uint32_t hash, void* child);
    // `by` gets the place of `child`.
    bool replace(uint32_t hash, void* child, void* by);

    // The first child with that hash for which is_it(child) is true; nullptr without one.
    template <typename Predicate>
    [[nodiscard]] void* find(uint32_t hash, const Predicate& is_it) const {
        if (has_only()) return only_hash_ == hash && is_it(only_) ? only_ : nullptr;
        for (const Entry& entry : part_of(hash).entries) {
            if (entry.hash != hash) continue;
            if (void* child = slot(entry.slot).child; is_it(child)) return child;
        }
        return nullptr;
    }

    // Takes out the child that came last. Requires: there is one.
    void* pop();

    [[nodiscard]] size_t size() const { return size_; }
    // In the order in which they were added.
    [[nodiscard]] std::vector<void*> children() const;
    void clear();

  private:
    static constexpr uint32_t kNone = UINT32_MAX;
    static constexpr int kBits = 4;      // of the hash, a level
    static constexpr size_t kFan = 16;   // parts that a full part is divided into
    static constexpr size_t kFull = 24;  // entries
    static constexpr int kLevels = 8;

    // A child and its neighbours in the order; or a free slot, and the next free one.
    struct Slot {
        void* child;
        uint32_t hash;
        uint32_t before;
        uint32_t after;
    };
    struct Entry {
        uint32_t hash;
        uint32_t slot;
    };
    struct Part {
        std::vector<Entry> entries;
        std::unique_ptr<std::array<Part, kFan>> parts;
    };

    [[nodiscard]] const Part& part_of(uint32_t hash) const;
    Entry* entry_of(uint32_t hash, void* child);
    static void divide(Part& part, int level);

    [[nodiscard]] Slot& slot(uint32_t index) const;
    uint32_t new_slot();

    // A map that never had two children keeps its child here and allocates nothing.
    [[nodiscard]] bool has_only() const { return only_ != nullptr; }
    void add_to_parts(uint32_t hash, void* child);

    void* only_ = nullptr;
    uint32_t only_hash_ = 0;
    uint32_t size_ = 0;
    Part top_;
    std::vector<std::unique_ptr<Slot[]>> blocks_;  // of 1, 2, 4, ... slots: slots never move
    uint32_t slots_ = 0;                           // in use or free
    uint32_t free_ = kNone;
    uint32_t first_ = kNone;
    uint32_t last_ = kNone;
};

}  // namespace hicache
