// Which page holds what, by the key that an engine gives it: a flat index over one page allocator.
//
// Keys form chains: each page continues the one before it, its parent. A key is a miss, pending
// (it has a page, which is being written) or a hit. A key stays in the index only as long as
// everything above it does, so that what is found by its beginning has no gap:
//
// - a page is evicted only when no key is below it, nothing pins it and it is not pending;
// - a failed store drops its keys and all keys that were stored below them, by whomever;
// - what would be stored below a key that is not in the index is left out.
//
// Dropped means: a miss from then on. The page of a dropped key comes free at once, unless it is
// pinned or pending: then it is *withheld* until its last unpin() or its finish_store(). Until then
// the key can't be stored anew, as nobody could say any more whose pin or store ends; it and what
// comes after it in a chain are left out.
//
// free + hit + pending + withheld pages = all pages, after every call. A failed call changes
// nothing.
//
// Not thread-safe; callers serialise (the Python bindings hold the GIL).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/eviction_queue.h"
#include "core/index_key.h"
#include "core/key_table.h"
#include "core/lazy_array.h"
#include "core/page_allocator.h"

namespace hicache {

enum class KeyState : uint8_t { kMiss = 0, kPending = 1, kHit = 2 };

struct IndexCounts {
    int64_t hit, pending, withheld;     // pages
    int64_t pinned;                     // keys that are hits and pinned
    int64_t evicted, failed, left_out;  // keys since the index was made
};

// Keys that got pages, by their position in the call, and those that went for it.
struct IndexStore {
    std::vector<size_t> positions;
    std::vector<int64_t> pages;      // one a position, ascending
    std::vector<StoredKey> evicted;  // children before parents
};

class PageIndex {
  public:
    // Throws: std::invalid_argument for a size outside [0, 2^32 - 2] or an unknown policy;
    // std::bad_alloc.
    PageIndex(int64_t num_pages, std::string_view policy);

    [[nodiscard]] const PageAllocator& pages() const { return allocator_; }
    [[nodiscard]] IndexCounts counts() const { return counts_; }

    // Requires: as many states as keys.
    void lookup(std::span<const Key> keys, std::span<KeyState> states) const;
    // How many of the first keys are hits.
    [[nodiscard]] int64_t prefix(std::span<const Key> keys) const;

    // The pages of the keys, used as of now and kept until as many unpins. A key that stands there
    // twice is pinned twice.
    // Throws: std::out_of_range that names the first key that is no hit.
    [[nodiscard]] std::vector<int64_t> pin(std::span<const Key> keys);
    // Throws: std::invalid_argument that names the first key with fewer pins than that.
    void unpin(std::span<const Key> keys);
    // Used as of now, one after the other. What is no hit is passed over.
    void touch(std::span<const Key> keys);

    // Gives pages to the keys that are misses, all in one allocation; evicts what that takes, and
    // no more. Each key is stored below the one before it, the first below `parent` (null: below
    // nothing). nullopt: not enough pages may go, none went. Neither a key of this call nor
    // anything above one is evicted for it.
    // Throws: std::invalid_argument if a key stands there twice.
    [[nodiscard]] std::optional<IndexStore> begin_store(std::span<const Key> keys,
                                                        const Key* parent, int32_t priority);
    // The pages of these keys are written (success), or never will be. Returns every key that this
    // call dropped, children before parents, and those of `keys` that were dropped before.
    // Throws: std::invalid_argument that names the first key that isn't pending, or is there twice.
    std::vector<StoredKey> finish_store(std::span<const Key> keys, bool success);

    // Drops everything. Returns how many keys that were. Takes time for each key only where a page
    // is pinned, pending or withheld.
    // Throws: std::bad_alloc.
    int64_t reset();

    // Throws: std::runtime_error with both sides of the equation that does not hold.
    void check() const;

  private:
    enum class State : uint8_t { kNone, kPending, kFinishing, kHit };
    struct Entry {
        uint32_t parent, first_child;  // kNoPage: none
        uint32_t sibling_before, sibling_after;
        uint32_t pins;
        int32_t priority;
        State state;
        bool withheld;  // dropped; neither parent nor children
    };

    [[nodiscard]] std::vector<uint32_t> find_all(std::span<const Key> keys) const;
    [[nodiscard]] KeyState state_of(uint32_t page) const;
    [[nodiscard]] bool may_go(uint32_t page) const;
    void refresh(uint32_t page);
    void link(uint32_t page, uint32_t parent);
    void unlink(uint32_t page);
    void add_pin(uint32_t page);
    void remove_pin(uint32_t page);
    [[nodiscard]] std::vector<uint32_t> choose_victims(int64_t wanted);
    bool make_room(int64_t wanted, std::span<const uint32_t> kept, std::vector<StoredKey>& evicted);
    void mark_finishing(std::span<const Key> keys, std::span<const uint32_t> pages);
    void drop(uint32_t page, std::vector<int64_t>& freed);
    void drop_with_all_below(uint32_t page, std::vector<StoredKey>& dropped,
                             std::vector<int64_t>& freed);
    void clear(uint32_t page, std::vector<int64_t>& freed);
    int64_t start_anew();
    void check_entry(uint32_t page) const;
    void check_queue(uint32_t page) const;

    PageAllocator allocator_;
    KeyTable table_;
    LazyArray<Entry> entries_;              // by page
    std::unique_ptr<EvictionQueue> queue_;  // the hits
    std::string policy_;
    IndexCounts counts_{};
};

}  // namespace hicache
