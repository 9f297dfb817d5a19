// Hands out the pages of one pool.
//
// Every page is free, allocated or reserved (never handed out), or not there yet: a pool may grow,
// from its first page on. free + allocated + reserved = the pages that are there after every call.
// A failed call changes nothing.
//
// Not thread-safe; callers serialise (the Python bindings hold the GIL).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/free_extents.h"
#include "core/lazy_array.h"

namespace hicache {

class PageAllocator {
  public:
    // reserved: page ids that are never handed out. ready: only the first so many pages are there
    // at the beginning, nullopt = all.
    // Throws: std::invalid_argument for a size outside [0, 2^32 - 2], a reserved page out of range
    // or named twice, or ready outside [0, num_pages]; std::bad_alloc.
    PageAllocator(int64_t num_pages, std::span<const int64_t> reserved,
                  std::optional<int64_t> ready = std::nullopt);

    [[nodiscard]] int64_t num_pages() const { return num_pages_; }
    // Pages that are there and not reserved.
    [[nodiscard]] int64_t total_pages() const { return ready_ - num_reserved_; }
    // The first so many pages are there.
    [[nodiscard]] int64_t ready_pages() const { return ready_; }
    // Makes the first `ready` pages be there; fewer than there are: nothing.
    // Throws: std::invalid_argument for more than num_pages.
    void grow(int64_t ready);
    [[nodiscard]] int64_t free_pages() const { return extents_.pages(); }
    // How fragmented the free pages are: extents (maximal runs of them), and the longest one's
    // pages (0 when none is free). O(1).
    [[nodiscard]] int64_t num_extents() const { return extents_.count(); }
    [[nodiscard]] int64_t largest_extent() const { return extents_.largest(); }

    // n page ids, ascending: neighbours from the upper end of the smallest extent that is long
    // enough, else as few extents as possible, the largest first. nullopt: fewer than n pages are
    // free.
    // Throws: std::invalid_argument for n < 0.
    [[nodiscard]] std::optional<std::vector<int64_t>> allocate(int64_t n);

    // Gives pages back, in any order.
    // Throws: std::invalid_argument that names the page: out of range, reserved, not allocated, or
    // twice in the list.
    void free(std::span<const int64_t> pages);

    // Whether every page is allocated; false for ids out of range.
    [[nodiscard]] bool is_allocated(std::span<const int64_t> pages) const;

    // Throws: std::runtime_error with both sides of the broken equation.
    void check() const;

  private:
    [[nodiscard]] bool is_there(int64_t page) const { return page >= 0 && page < ready_; }
    [[nodiscard]] bool is_reserved(int64_t page) const {
        return reserved_[page >> 6] >> (page & 63) & 1;
    }
    bool mark(int64_t page);
    void unmark(std::span<const int64_t> pages);
    [[noreturn]] void reject(std::span<const int64_t> pages, size_t at) const;

    int64_t num_pages_;
    int64_t ready_ = 0;
    int64_t num_reserved_ = 0;      // of the pages that are there
    LazyArray<uint64_t> reserved_;  // bit a page
    LazyArray<uint64_t> marked_;    // bit a page: seen in the list of the call in progress
    FreeExtents extents_;
};

}  // namespace hicache
