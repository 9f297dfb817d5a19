// The journal of a host file: a table with one entry a host page, in memory that outlives the
// process.
//
// An entry that is *published* says which tokens the page holds, what stands before them (the chain
// of page hashes) and that its bytes are whole. At any instant, also between two stores, the
// published entries are true and closed to the front: a page is published after the page before it
// and withdrawn before it. So whatever a killed process leaves can be restored.
//
// The word that makes an entry count (`seal`, a checksum of the page's number and all of the entry)
// is stored last and cleared first. A kill stops a thread between two instructions and loses no
// store, so the order of the stores in the program is all that is needed. The generation is part of
// each entry: when it changes, which is one store, nothing of what was published counts any more.
//
// Not thread-safe; the cache's lock serialises.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/blake2b.h"

namespace hicache {

// What a table's entries make up, see restore().
struct RestoredNode {
    int64_t parent;       // index of its parent, which comes before it; -1: below a root
    int64_t root;         // index of its namespace
    int64_t first, size;  // its pages: pages[first .. first + size - 1]
    int64_t priority;
    int64_t created;  // sequence number of its first page
    int64_t used;     // the latest sequence number at or below it
};

struct Restored {
    std::vector<std::string> namespaces;
    std::vector<RestoredNode> nodes;  // parents first
    std::vector<int64_t> pages;
    std::vector<int64_t> tokens;  // page_size a page
    int64_t damaged = 0;          // entries that were not true, and those that stood on one
};

class PageTable {
  public:
    static constexpr size_t kMostNamespaceBytes = 63;

    [[nodiscard]] static int64_t entry_bytes(int64_t page_size);
    // A generation proves itself: a damaged one is none.
    [[nodiscard]] static uint64_t first_generation();
    [[nodiscard]] static bool is_generation(uint64_t word);

    // entries: num_pages * entry_bytes() bytes, aligned to 8, all 0 in a new table. generation: a
    // word beside them. Both must outlive the table. fingerprint: of the pool's format.
    PageTable(std::byte* entries, uint64_t* generation, int64_t num_pages, int64_t page_size,
              std::string fingerprint);

    // The chain of pages that the entries prove. Everything else is withdrawn. Called once, before
    // anything else; O(entries), some microseconds each.
    [[nodiscard]] Restored restore();

    // The bytes of `pages` are whole: page i holds tokens [i * page_size, (i + 1) * page_size).
    // before: the published page in front of pages[0], none if they are the first of `name_space`.
    // Throws: std::invalid_argument, nothing published: a page out of range or published already, a
    // page before that isn't published, tokens or a namespace that don't fit.
    void publish(std::span<const int64_t> pages, std::optional<int64_t> before,
                 std::span<const std::byte> name_space, std::span<const int64_t> tokens,
                 int64_t priority);

    // The bytes of `pages` may change from now on. Those that aren't published are left alone; what
    // stands behind a page must be in the list too. Throws: std::invalid_argument: out of range.
    void withdraw(std::span<const int64_t> pages);

    // Another priority for those of `pages` that are published. Kept within 32 bits.
    void set_priority(std::span<const int64_t> pages, int64_t priority);

    // Nothing that was published counts any more.
    void next_generation();

    [[nodiscard]] bool published(int64_t page) const;

    // For tests: called after each store to the table.
    void watch_stores(std::function<void()> watcher) { watcher_ = std::move(watcher); }

  private:
    struct Entry;

    [[nodiscard]] Entry& entry(int64_t page) const;
    [[nodiscard]] uint64_t seal_of(int64_t page, const Entry& entry) const;
    [[nodiscard]] Digest hash_behind(const Digest& before, std::span<const int64_t> tokens) const;
    [[nodiscard]] Digest seed_of(std::span<const std::byte> name_space) const;
    [[nodiscard]] bool proved(int64_t page) const;
    void require_pages(std::span<const int64_t> pages) const;
    void write(int64_t page, const Entry& made);
    void store(uint64_t& word, uint64_t value);

    std::byte* const entries_;
    uint64_t* const generation_;
    const int64_t num_pages_;
    const int64_t page_size_;
    const int64_t entry_bytes_;
    const std::string fingerprint_;
    uint64_t sequence_ = 0;       // of the page published last
    std::vector<uint64_t> made_;  // an entry in the making
    std::function<void()> watcher_;

    friend class RestoredChains;
};

}  // namespace hicache
