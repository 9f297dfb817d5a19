// The free pages of a pool as extents (maximal runs of neighbouring free pages).
//
// Each operation on an extent is O(1): an extent's length stands at its first and last page
// (boundary tags, Knuth, TAOCP 1, 2.5), extents of one length form a list, and a BitTree over the
// lengths in use answers "smallest length that is enough". Ties go to the extent that became free
// last, so equal histories give equal answers on every rank.
//
// Not thread-safe; PageAllocator serialises calls.
#pragma once

#include <cstdint>

#include "core/bit_tree.h"
#include "core/lazy_array.h"

namespace hicache {

struct Extent {
    int64_t start;
    int64_t length;
};

class FreeExtents {
  public:
    explicit FreeExtents(int64_t num_pages);

    [[nodiscard]] bool is_free(int64_t page) const {
        return free_bits_[page >> 6] >> (page & 63) & 1;
    }
    [[nodiscard]] int64_t count() const { return count_; }
    [[nodiscard]] int64_t pages() const { return pages_; }
    [[nodiscard]] int64_t largest() const;

    // Adds pages that are not free, joined with free neighbours. Requires: length > 0, in range.
    void add(Extent extent);

    // Takes up to `wanted` pages as one extent: the upper end of the smallest extent that has them
    // all, else the whole largest one. Requires: wanted > 0, pages() > 0.
    //
    // Upper end: a cache gives pages back from the tails of its prefixes, the oldest prefix first.
    // Where a later prefix lies below an earlier one, the pages that come free one after the other
    // are neighbours, and a pool that stays full goes round like a ring.
    [[nodiscard]] Extent take(int64_t wanted);

    // Throws: std::runtime_error with both sides of the equation that does not hold.
    void check() const;

  private:
    void link(Extent extent);
    void unlink(Extent extent);
    void set_bits(Extent extent, bool free);
    void check_extent(Extent extent) const;
    void check_walk() const;

    int64_t num_pages_;
    int64_t count_ = 0;
    int64_t pages_ = 0;
    LazyArray<uint64_t> free_bits_;
    LazyArray<uint32_t> tags_;      // length of the extent, at its first and its last page
    LazyArray<uint32_t> next_;      // by first page: the next extent of this length + 1, 0 = none
    LazyArray<uint32_t> previous_;  // likewise
    LazyArray<uint32_t> heads_;     // by length: first page of the newest extent + 1
    BitTree lengths_;               // lengths with at least one extent
};

}  // namespace hicache
