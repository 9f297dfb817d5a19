// PageIndex::check(): every rule of the index, by a walk over all of it.
#include "core/errors.h"
#include "core/page_index.h"

namespace hicache {

void PageIndex::check_queue(uint32_t page) const {
    const Entry& entry = entries_[page];
    const bool queued = entry.state == State::kHit && !entry.withheld;
    if (queue_->contains(page) != queued)
        bad_state("page ", page, " in the eviction queue ", queue_->contains(page), " != ", queued);
    if (queued && queue_->is_ready(page) != may_go(page))
        bad_state("page ", page, " may go ", may_go(page), " != by the eviction queue ",
                  queue_->is_ready(page));
}

// One key's own account: its state, its pins, and that its relatives know it.
void PageIndex::check_entry(uint32_t page) const {
    const Entry& entry = entries_[page];
    if (entry.state != State::kPending && entry.state != State::kHit)
        bad_state("page ", page, " has a key and is in state ", static_cast<int>(entry.state));
    if (entry.state == State::kPending && entry.pins != 0)
        bad_state("page ", page, " is pending and has pins ", entry.pins, " != 0");
    const bool related = entry.parent != kNoPage || entry.first_child != kNoPage;
    if (entry.withheld && (related || (entry.state == State::kHit && entry.pins == 0)))
        bad_state("page ", page, " is withheld with relatives ", related, ", pins ", entry.pins);
    uint32_t before = kNoPage;
    for (uint32_t child = entry.first_child; child != kNoPage;
         child = entries_[child].sibling_after) {
        const Entry& below = entries_[child];
        if (below.parent != page || below.sibling_before != before || below.withheld ||
            below.state == State::kNone)
            bad_state("page ", child, " is below page ", page, ", by its own account below page ",
                      below.parent);
        before = child;
    }
    check_queue(page);
}

void PageIndex::check() const {
    allocator_.check();
    table_.check();
    queue_->check();
    IndexCounts found{};
    int64_t children = 0, with_parent = 0;
    for (const uint32_t page : table_.pages()) {
        const Entry& entry = entries_[page];
        const int64_t id = page;
        if (!allocator_.is_allocated({&id, 1})) bad_state("page ", page, " has a key and is free");
        check_entry(page);
        ++(entry.withheld               ? found.withheld
           : entry.state == State::kHit ? found.hit
                                        : found.pending);
        found.pinned += !entry.withheld && entry.pins > 0;
        with_parent += entry.parent != kNoPage;
        for (uint32_t child = entry.first_child; child != kNoPage;
             child = entries_[child].sibling_after)
            ++children;
    }
    // Each child is in the list of the one parent that it names: so equal numbers mean that every
    // parent has a key, and is not withheld.
    if (children != with_parent)
        bad_state("children by their parents ", children, " != by themselves ", with_parent);
    const auto agree = [](const char* what, int64_t walked, int64_t counted) {
        if (walked != counted) bad_state(what, " by a walk ", walked, " != by counter ", counted);
    };
    agree("hits", found.hit, counts_.hit);
    agree("pending", found.pending, counts_.pending);
    agree("withheld", found.withheld, counts_.withheld);
    agree("pinned", found.pinned, counts_.pinned);
    agree("eviction queue", found.hit, queue_->size());
    const int64_t held = found.hit + found.pending + found.withheld;
    if (allocator_.free_pages() + held != allocator_.total_pages())
        bad_state("free ", allocator_.free_pages(), " + hit ", found.hit, " + pending ",
                  found.pending, " + withheld ", found.withheld, " != total ",
                  allocator_.total_pages());
}

}  // namespace hicache
