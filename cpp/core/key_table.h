// Keys to pages and back: one slot a page, found by the hash of its key.
//
// Linear hashing (Litwin, 1980): the table grows by a bucket or two with every insert, so no insert
// pays for moving all that is there, and a table for millions of pages is made at once and uses
// memory only for what it holds. At most half as many keys as buckets.
//
// Not thread-safe; the owner serialises calls.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/index_key.h"
#include "core/lazy_array.h"

namespace hicache {

inline constexpr uint32_t kNoPage = UINT32_MAX;

class KeyTable {
  public:
    // Requires: 0 <= num_pages <= 2^32 - 2.
    // Throws: std::bad_alloc.
    explicit KeyTable(int64_t num_pages);

    [[nodiscard]] int64_t size() const { return size_; }

    // The page of a key, or kNoPage.
    [[nodiscard]] uint32_t find(const Key& key) const { return find(key, key.hash()); }
    // The page of each key, or kNoPage. Many keys at once wait for memory together.
    // Requires: as many pages as keys.
    void find_all(std::span<const Key> keys, std::span<uint32_t> pages) const;

    // Requires: the key is not there, and the page has none.
    void insert(const Key& key, uint32_t page);
    // Requires: the page has a key.
    void erase(uint32_t page);

    // Requires: the page has a key. The view is good until erase().
    [[nodiscard]] Key key(uint32_t page) const { return slots_[page].key.key(); }
    [[nodiscard]] const StoredKey& stored_key(uint32_t page) const { return slots_[page].key; }

    // Every page that has a key, in no particular order.
    [[nodiscard]] std::vector<uint32_t> pages() const;

    // Throws: std::runtime_error with both sides of the equation that does not hold.
    void check() const;

  private:
    struct Slot {
        uint32_t hash;
        uint32_t next;  // the next page of this bucket + 1, 0 = none
        StoredKey key;
    };

    [[nodiscard]] uint32_t find(const Key& key, uint32_t hash) const;
    [[nodiscard]] int64_t bucket(uint32_t hash) const;
    void split_one();

    LazyArray<uint32_t> heads_;  // by bucket: its first page + 1, 0 = none
    LazyArray<Slot> slots_;      // by page
    int64_t buckets_ = 1;        // in use; those from round_ on are split off from bucket - round_
    int64_t round_ = 1;          // a power of two, round_ <= buckets_ < 2 * round_
    int64_t size_ = 0;
};

// Where a key stands twice: the two positions; nullopt if nowhere.
[[nodiscard]] std::optional<std::pair<size_t, size_t>> find_repeat(std::span<const Key> keys);

}  // namespace hicache
