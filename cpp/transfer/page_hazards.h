// Orders copies of opposite directions that touch the same page.
//
// Copies of one direction run in submission order, so it is enough to remember, for each page of
// each tier, the last copy of each direction that used it: a new copy waits for the latest one of
// the other direction that it shares a page with. The table entries of pages that were never copied
// use no memory.
//
// Not thread-safe; TransferEngine serialises calls.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/lazy_array.h"
#include "transfer/direction.h"

namespace hicache {

class PageHazards {
  public:
    PageHazards(int64_t host_pages, int64_t device_pages);

    // Throws: std::invalid_argument for a page out of range or a destination named twice. Changes
    // nothing that a later call could see.
    void check_pages(Direction direction, std::span<const int64_t> host_pages,
                     std::span<const int64_t> device_pages);

    // Notes that copy number `sequence` (counted from 1 in its direction) uses these pages. Returns
    // the number of the copy of the other direction it has to wait for, 0 = none.
    // Requires: check_pages() accepted them.
    int64_t note(Direction direction, int64_t sequence, std::span<const int64_t> host_pages,
                 std::span<const int64_t> device_pages);

  private:
    // Side by side: scattered pages cost a cache line each.
    struct PageUse {
        std::array<int64_t, 2> last;  // by direction: last copy that used the page
        int64_t seen;                 // the check that saw the page last
    };
    using Tier = LazyArray<PageUse>;

    static int64_t note_tier(Tier& tier, Direction direction, int64_t sequence,
                             std::span<const int64_t> pages);

    Tier host_;
    Tier device_;
    int64_t checks_ = 0;
};

}  // namespace hicache
