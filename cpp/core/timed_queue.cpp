#include "core/timed_queue.h"

#include "core/errors.h"

namespace hicache {

void TimedQueue::append(uint32_t page) {
    nodes_[page] = {++now_, last_, kNoPage, Place::kListed, nodes_[page].ready};
    (last_ == kNoPage ? first_ : nodes_[last_].after) = page;
    last_ = page;
    ++listed_;
}

void TimedQueue::unlink(uint32_t page) {
    const Node& node = nodes_[page];
    (node.before == kNoPage ? first_ : nodes_[node.before].after) = node.after;
    (node.after == kNoPage ? last_ : nodes_[node.after].before) = node.before;
    --listed_;
}

// Takes the page from the list or from those parked.
void TimedQueue::leave(uint32_t page) {
    if (nodes_[page].place == Place::kListed) {
        unlink(page);
        return;
    }
    if (parked_.contains(page)) parked_.erase(page);
    --num_parked_;
}

void TimedQueue::add(uint32_t page, int32_t) {
    nodes_[page].ready = false;
    append(page);
}

void TimedQueue::use(uint32_t page) {
    if (!by_use_) return;
    leave(page);
    append(page);
}

void TimedQueue::set_ready(uint32_t page, bool may_go) {
    Node& node = nodes_[page];
    node.ready = may_go;
    if (may_go && node.place == Place::kParked && !parked_.contains(page))
        parked_.push(page, rank(page));
}

void TimedQueue::remove(uint32_t page) {
    leave(page);
    nodes_[page].place = Place::kAbsent;
}

int64_t TimedQueue::next() {
    while (end() != kNoPage && !nodes_[end()].ready) {
        const uint32_t page = end();
        unlink(page);
        nodes_[page].place = Place::kParked;
        ++num_parked_;
    }
    while (!parked_.empty() && !nodes_[parked_.top()].ready)
        parked_.erase(parked_.top());
    if (parked_.empty()) return end() == kNoPage ? -1 : int64_t{end()};
    if (end() == kNoPage || parked_.top_rank() < rank(end())) return parked_.top();
    return end();
}

void TimedQueue::check() const {
    int64_t found = 0, time = 0;
    uint32_t before = kNoPage;
    for (uint32_t page = first_; page != kNoPage; page = nodes_[page].after) {
        const Node& node = nodes_[page];
        if (++found > listed_) bad_state("pages in the list ", found, " > by counter ", listed_);
        if (node.place != Place::kListed || node.before != before)
            bad_state("page ", page, " is in the list, but not by its own account");
        if (node.time <= time) bad_state("page ", page, " of time ", node.time, " after ", time);
        time = node.time;
        before = page;
    }
    if (found != listed_ || before != last_)
        bad_state("pages in the list ", found, " != by counter ", listed_);
    parked_.check();
    int64_t parked = 0, waiting = 0;
    for (int64_t i = 0; i < nodes_.size(); ++i) {
        const auto page = static_cast<uint32_t>(i);
        const bool is_parked = nodes_[page].place == Place::kParked;
        parked += is_parked;
        waiting += parked_.contains(page);
        if (parked_.contains(page) && (!is_parked || parked_.rank(page) != rank(page)))
            bad_state("page ", page,
                      " waits among the parked ones without being one, or out of turn");
        if (is_parked && nodes_[page].ready && !parked_.contains(page))
            bad_state("page ", page, " may go and is parked out of sight");
    }
    if (parked != num_parked_) bad_state("pages parked ", parked, " != by counter ", num_parked_);
    if (waiting != static_cast<int64_t>(parked_.size()))
        bad_state("parked pages that wait ", waiting, " != in the heap ", parked_.size());
}

}  // namespace hicache
