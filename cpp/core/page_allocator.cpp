#include "core/page_allocator.h"

#include <algorithm>
#include <numeric>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr int64_t kMaxPages = (int64_t{1} << 32) - 2;  // page + 1 fits the 32-bit links

int64_t valid_size(int64_t num_pages) {
    if (num_pages < 0 || num_pages > kMaxPages) {
        bad_argument("num_pages is ", num_pages, "; it must be between 0 and ", kMaxPages, ".");
    }
    return num_pages;
}

}  // namespace

PageAllocator::PageAllocator(int64_t num_pages, std::span<const int64_t> reserved,
                             std::optional<int64_t> ready)
    : num_pages_(valid_size(num_pages)),
      reserved_((num_pages + 63) / 64),
      marked_((num_pages + 63) / 64),
      extents_(num_pages) {
    for (const int64_t page : reserved) {
        if (page < 0 || page >= num_pages) {
            bad_argument("Reserved page ", page, " is outside the pool of ", num_pages, " pages.");
        }
        if (is_reserved(page)) bad_argument("Reserved page ", page, " is named twice.");
        reserved_[page >> 6] |= uint64_t{1} << (page & 63);
    }
    if (ready.value_or(0) < 0) bad_argument("ready is ", *ready, "; it must not be negative.");
    grow(ready.value_or(num_pages));
}

void PageAllocator::grow(int64_t ready) {
    if (ready > num_pages_) {
        bad_argument("Cannot grow to ", ready, " pages: the pool has ", num_pages_, ".");
    }
    while (ready_ < ready) {
        const int64_t start = ready_;
        while (ready_ < ready && !is_reserved(ready_))
            ++ready_;
        if (ready_ > start) extents_.add({start, ready_ - start});
        for (; ready_ < ready && is_reserved(ready_); ++ready_)
            ++num_reserved_;
    }
}

std::optional<std::vector<int64_t>> PageAllocator::allocate(int64_t n) {
    if (n < 0) bad_argument("Cannot allocate ", n, " pages; n must not be negative.");
    if (n > free_pages()) return std::nullopt;
    std::vector<int64_t> pages(static_cast<size_t>(n));
    std::vector<Extent> parts;
    for (int64_t missing = n; missing > 0; missing -= parts.back().length) {
        parts.push_back(extents_.take(missing));
    }
    std::sort(parts.begin(), parts.end(),
              [](const Extent& a, const Extent& b) { return a.start < b.start; });
    auto out = pages.begin();
    for (const auto& [start, length] : parts) {
        std::iota(out, out + length, start);
        out += length;
    }
    return pages;
}

bool PageAllocator::mark(int64_t page) {
    uint64_t& word = marked_[page >> 6];
    const uint64_t bit = uint64_t{1} << (page & 63);
    if (word & bit) return false;
    word |= bit;
    return true;
}

void PageAllocator::unmark(std::span<const int64_t> pages) {
    for (const int64_t page : pages)
        marked_[page >> 6] &= ~(uint64_t{1} << (page & 63));
}

void PageAllocator::reject(std::span<const int64_t> pages, size_t at) const {
    const int64_t page = pages[at];
    const auto place = message(" (entry ", at, " of ", pages.size(), "); nothing was freed.");
    if (!is_there(page)) {
        bad_argument("Cannot free page ", page, ": the pool has pages 0 to ", ready_ - 1, place);
    }
    if (is_reserved(page)) bad_argument("Cannot free page ", page, ": it is reserved", place);
    if (extents_.is_free(page)) {
        bad_argument("Cannot free page ", page, ": it is free already or was never allocated",
                     place);
    }
    bad_argument("Cannot free page ", page, ": it is in the list twice", place);
}

void PageAllocator::free(std::span<const int64_t> pages) {
    for (size_t i = 0; i < pages.size(); ++i) {
        const int64_t page = pages[i];
        if (!is_there(page) || is_reserved(page) || extents_.is_free(page) || !mark(page)) {
            unmark(pages.first(i));
            reject(pages, i);
        }
    }
    unmark(pages);
    for (size_t i = 0; i < pages.size();) {
        size_t end = i + 1;
        while (end < pages.size() && pages[end] == pages[end - 1] + 1)
            ++end;
        extents_.add({pages[i], static_cast<int64_t>(end - i)});
        i = end;
    }
}

bool PageAllocator::is_allocated(std::span<const int64_t> pages) const {
    return std::all_of(pages.begin(), pages.end(), [this](int64_t page) {
        return is_there(page) && !is_reserved(page) && !extents_.is_free(page);
    });
}

void PageAllocator::check() const {
    extents_.check();
    int64_t free = 0, reserved = 0, allocated = 0;
    for (int64_t page = 0; page < num_pages_; ++page) {
        if (marked_[page >> 6] >> (page & 63) & 1) bad_state("page ", page, " is left marked");
        if (is_reserved(page) && extents_.is_free(page))
            bad_state("page ", page, " reserved and free");
        if (!is_there(page)) {
            if (extents_.is_free(page)) bad_state("page ", page, " free and not there yet");
            continue;
        }
        ++(is_reserved(page) ? reserved : extents_.is_free(page) ? free : allocated);
    }
    if (reserved != num_reserved_) {
        bad_state("reserved pages by bitmap ", reserved, " != by counter ", num_reserved_);
    }
    if (free != free_pages() || free + allocated != total_pages()) {
        bad_state("free ", free, " (counter ", free_pages(), ") + allocated ", allocated,
                  " != total ", total_pages());
    }
}

}  // namespace hicache
