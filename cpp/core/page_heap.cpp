#include "core/page_heap.h"

#include "core/errors.h"

namespace hicache {

void PageHeap::put(size_t at, const Item& item) {
    items_[at] = item;
    places_[item.page] = static_cast<uint32_t>(at + 1);
}

// Brings the item at `at` to where its rank belongs, upwards or downwards.
void PageHeap::sift(size_t at) {
    const Item item = items_[at];
    while (at > 0 && item.rank < items_[(at - 1) / 2].rank) {
        put(at, items_[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (size_t child = 2 * at + 1; child < items_.size(); child = 2 * at + 1) {
        if (child + 1 < items_.size() && items_[child + 1].rank < items_[child].rank) ++child;
        if (item.rank <= items_[child].rank) break;
        put(at, items_[child]);
        at = child;
    }
    put(at, item);
}

void PageHeap::push(uint32_t page, Rank rank) {
    items_.push_back({rank, page});
    sift(items_.size() - 1);
}

void PageHeap::erase(uint32_t page) {
    const size_t at = places_[page] - 1;
    const Item last = items_.back();
    items_.pop_back();
    places_[page] = 0;
    if (at == items_.size()) return;
    items_[at] = last;
    sift(at);
}

void PageHeap::set_rank(uint32_t page, Rank rank) {
    const size_t at = places_[page] - 1;
    items_[at].rank = rank;
    sift(at);
}

void PageHeap::check() const {
    for (size_t at = 0; at < items_.size(); ++at) {
        const auto& [rank, page] = items_[at];
        if (places_[page] != at + 1)
            bad_state("page ", page, " at ", at, " of the heap, by its place ", places_[page],
                      " - 1");
        if (at > 0 && rank < items_[(at - 1) / 2].rank)
            bad_state("page ", page, " at ", at, " of the heap ranks before the one above it");
    }
}

}  // namespace hicache
