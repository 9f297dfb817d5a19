// What became of pages, by page key (page_keys.h): a bounded table, from which a miss learns its
// reason.
//
// A page is *cached* while it is in a tier. One that is not was *evicted*, *flushed* or *failed*
// (lost by a copy that failed), or nothing is known of it: it was never cached, or that is
// forgotten. What is cached is never walked: a cached page that no eviction and no failure took
// out by the time it is looked for was lost by a flush. So flush() only begins a new epoch.
//
// The table holds `capacity` entries. When it is full a new entry takes the place of the one that
// came first, of those that are not cached and were not noted again since the last one that went
// passed them by (those get another turn). As long as no more than `capacity` pages are cached, all
// of them are known.
//
// 16 bytes an entry, which take memory once they are used, and for each that could be used 4 to 8
// for finding it: keys lie anywhere in those, so that some thousands of them touch them all.
//
// Not thread-safe; callers serialise. `keys` may have a key twice.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "core/lazy_array.h"

namespace hicache {

enum class Loss : uint8_t { kEvicted = 0, kFlushed = 1, kFailed = 2 };

class PageHistory {
  public:
    static constexpr int64_t kMostEntries = (int64_t{1} << 29) - 1;

    // Throws: std::invalid_argument for a capacity outside [1, kMostEntries]; std::bad_alloc.
    explicit PageHistory(int64_t capacity);

    [[nodiscard]] int64_t capacity() const { return entries_.size(); }
    // Entries, and those of them whose page is cached.
    [[nodiscard]] int64_t size() const { return size_; }
    [[nodiscard]] int64_t cached() const { return cached_; }

    // The pages are in a tier from now on.
    void enter(std::span<const uint64_t> keys);

    // The pages left their last tier. One whose save had failed is failed, whatever the reason is.
    void leave(std::span<const uint64_t> keys, Loss loss);

    // A save of the pages failed: if they go, that is why. What is not cached stays as it is.
    void save_failed(std::span<const uint64_t> keys);
    // A later save went well.
    void saved(std::span<const uint64_t> keys);

    // The pages should have come and did not, since a copy failed. What is cached stays as it is.
    void never_came(std::span<const uint64_t> keys);

    // No page is cached any more. O(1).
    void flush();

    [[nodiscard]] bool is_cached(uint64_t key) const;
    // Why the page is not cached; nullopt: it is, or nothing is known of it.
    [[nodiscard]] std::optional<Loss> loss(uint64_t key) const;

    // Pages by reason.
    struct Losses {
        int64_t evicted = 0, flushed = 0, failed = 0;
    };
    // Why the pages of the tokens, the first one behind the page with the key `above`, are not
    // cached; up to the first of which nothing is known. Its own page and those behind it are cold.
    // Requires: page_size > 0.
    [[nodiscard]] Losses losses(std::span<const int64_t> tokens, int64_t page_size,
                                uint64_t above) const;

    // Throws: std::runtime_error with both sides of an equation that does not hold.
    void check() const;

  private:
    struct Entry {
        uint64_t key;
        uint32_t epoch;      // the one in which it is cached; 0: it is not
        uint32_t next : 29;  // the next one of its bucket: slot + 1, 0 behind the last
        uint32_t loss : 2;   // why it is gone, or what takes it if nothing else is noted
        uint32_t again : 1;  // noted since the last one that went passed it by
    };
    static_assert(sizeof(Entry) == 16);

    [[nodiscard]] bool is_cached(const Entry& entry) const { return entry.epoch == epoch_; }
    [[nodiscard]] int64_t bucket(uint64_t key) const;
    [[nodiscard]] const Entry* find(uint64_t key) const;
    Entry* find(uint64_t key);
    Entry& find_or_add(uint64_t key);
    // Has the entries of the keys brought near. What is looked for one after the other would wait
    // for memory each time.
    void prefetch(std::span<const uint64_t> keys) const;
    uint32_t new_slot();
    void unlink(uint32_t slot);

    LazyArray<Entry> entries_;     // the first size_ are used
    LazyArray<uint32_t> buckets_;  // slot + 1, 0: empty
    int64_t size_ = 0;
    int64_t cached_ = 0;
    int64_t failing_ = 0;  // cached, and a save failed
    int64_t hand_ = 0;     // the slot that is looked at next when one is wanted
    uint32_t epoch_ = 1;
};

}  // namespace hicache
