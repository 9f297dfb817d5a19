#include "core/ranked_queue.h"

#include <limits>

#include "core/errors.h"

namespace hicache {

void RankedQueue::add(uint32_t page, int32_t priority) {
    nodes_[page] = {++now_, 1, priority, false};
    ++size_;
}

void RankedQueue::use(uint32_t page) {
    Node& node = nodes_[page];
    node.last_use = ++now_;
    if (node.uses < std::numeric_limits<uint32_t>::max()) ++node.uses;
}

void RankedQueue::set_ready(uint32_t page, bool may_go) {
    nodes_[page].ready = may_go;
    if (may_go && !heap_.contains(page)) heap_.push(page, rank(page));
}

void RankedQueue::remove(uint32_t page) {
    if (heap_.contains(page)) heap_.erase(page);
    nodes_[page] = {};
    --size_;
}

int64_t RankedQueue::next() {
    while (!heap_.empty()) {
        const uint32_t page = heap_.top();
        if (!nodes_[page].ready) {
            heap_.erase(page);
        } else if (const Rank now = rank(page); now != heap_.top_rank()) {
            heap_.set_rank(page, now);
        } else {
            return page;
        }
    }
    return -1;
}

void RankedQueue::check() const {
    heap_.check();
    int64_t found = 0, queued = 0;
    for (int64_t i = 0; i < nodes_.size(); ++i) {
        const auto page = static_cast<uint32_t>(i);
        found += contains(page);
        queued += heap_.contains(page);
        if (heap_.contains(page) && (!contains(page) || rank(page) < heap_.rank(page)))
            bad_state("page ", page, " is in the heap with a rank that it never had");
        if (contains(page) && nodes_[page].ready && !heap_.contains(page))
            bad_state("page ", page, " may go and is not in the heap");
    }
    if (found != size_) bad_state("pages in the queue ", found, " != by counter ", size_);
    if (queued != static_cast<int64_t>(heap_.size()))
        bad_state("pages in the heap ", queued, " != its size ", heap_.size());
}

}  // namespace hicache
