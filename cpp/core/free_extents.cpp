#include "core/free_extents.h"

#include <algorithm>

#include "core/errors.h"

namespace hicache {

FreeExtents::FreeExtents(int64_t num_pages)
    : num_pages_(num_pages),
      free_bits_((num_pages + 63) / 64),
      tags_(num_pages),
      next_(num_pages),
      previous_(num_pages),
      heads_(num_pages + 1),
      lengths_(num_pages + 1) {}

int64_t FreeExtents::largest() const {
    return std::max<int64_t>(lengths_.largest(), 0);
}

void FreeExtents::set_bits(Extent extent, bool free) {
    int64_t page = extent.start;
    const int64_t end = extent.start + extent.length;
    while (page < end) {
        const int64_t bit = page & 63;
        const int64_t bits = std::min<int64_t>(64 - bit, end - page);
        const uint64_t mask = (bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1) << bit;
        uint64_t& word = free_bits_[page >> 6];
        word = free ? word | mask : word & ~mask;
        page += bits;
    }
}

void FreeExtents::link(Extent extent) {
    const auto [start, length] = extent;
    tags_[start] = tags_[start + length - 1] = static_cast<uint32_t>(length);
    const uint32_t head = heads_[length];
    next_[start] = head;
    previous_[start] = 0;
    if (head != 0) previous_[head - 1] = static_cast<uint32_t>(start + 1);
    heads_[length] = static_cast<uint32_t>(start + 1);
    if (head == 0) lengths_.insert(length);
    ++count_;
    pages_ += length;
}

void FreeExtents::unlink(Extent extent) {
    const auto [start, length] = extent;
    const uint32_t next = next_[start];
    const uint32_t previous = previous_[start];
    if (next != 0) previous_[next - 1] = previous;
    if (previous != 0) {
        next_[previous - 1] = next;
    } else {
        heads_[length] = next;
        if (next == 0) lengths_.erase(length);
    }
    --count_;
    pages_ -= length;
}

void FreeExtents::add(Extent extent) {
    set_bits(extent, true);
    if (extent.start > 0 && is_free(extent.start - 1)) {
        const int64_t length = tags_[extent.start - 1];
        const Extent left{extent.start - length, length};
        unlink(left);
        extent = {left.start, left.length + extent.length};
    }
    const int64_t end = extent.start + extent.length;
    if (end < num_pages_ && is_free(end)) {
        const Extent right{end, tags_[end]};
        unlink(right);
        extent.length += right.length;
    }
    link(extent);
}

Extent FreeExtents::take(int64_t wanted) {
    int64_t length = lengths_.first_from(wanted);
    if (length < 0) length = lengths_.largest();
    const Extent whole{static_cast<int64_t>(heads_[length]) - 1, length};
    unlink(whole);
    const int64_t rest = std::max<int64_t>(length - wanted, 0);
    const Extent taken{whole.start + rest, length - rest};
    if (rest > 0) link({whole.start, rest});
    set_bits(taken, false);
    return taken;
}

void FreeExtents::check_extent(Extent extent) const {
    const auto [start, length] = extent;
    const int64_t end = start + length;
    if (tags_[start] != length || tags_[end - 1] != length) {
        bad_state("free extent at page ", start, ": length by its list ", length, ", by its tags ",
                  tags_[start], " and ", tags_[end - 1]);
    }
    int64_t free = 0;
    for (int64_t page = start; page < end; ++page)
        free += is_free(page);
    if (free != length) {
        bad_state("free extent at page ", start, ": length ", length, " != free pages ", free);
    }
    if ((start > 0 && is_free(start - 1)) || (end < num_pages_ && is_free(end))) {
        bad_state("free extent at page ", start, " of ", length, " pages has a free neighbour");
    }
}

void FreeExtents::check_walk() const {
    int64_t count = 0, pages = 0, largest = 0, length = 0;
    for (int64_t page = 0; page < num_pages_; ++page) {
        length = is_free(page) ? length + 1 : 0;
        pages += length > 0;
        count += length == 1;
        largest = std::max(largest, length);
    }
    if (pages != pages_) bad_state("free pages by bitmap ", pages, " != by counter ", pages_);
    if (count != count_) bad_state("free extents by bitmap ", count, " != by counter ", count_);
    if (largest != this->largest()) {
        bad_state("largest free extent by bitmap ", largest, " != by its lengths ",
                  this->largest());
    }
}

void FreeExtents::check() const {
    int64_t count = 0;
    int64_t pages = 0;
    for (int64_t length = lengths_.first_from(0); length >= 0;
         length = lengths_.first_from(length + 1)) {
        for (uint32_t at = heads_[length]; at != 0 && count <= count_; at = next_[at - 1]) {
            check_extent({static_cast<int64_t>(at) - 1, length});
            ++count;
            pages += length;
        }
    }
    if (count != count_) bad_state("free extents in lists ", count, " != by counter ", count_);
    if (pages != pages_) bad_state("free pages in lists ", pages, " != by counter ", pages_);
    check_walk();
}

}  // namespace hicache
