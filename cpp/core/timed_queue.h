// lru, mru, fifo and filo: pages by one point in time, the earliest or the latest first.
//
// A list of all pages in order of that time. Whoever looks for the next page takes those that may
// not go off the end of the list: they are parked, and once they may go they wait in a heap, beside
// the list. A page is parked at most once for each time that it was stored or used, so all calls
// are O(1) amortised, plus O(log n) in the number that wait in the heap: those that were passed
// over, and of a prefix that leaves from its tail there is one at a time.
#pragma once

#include "core/eviction_queue.h"
#include "core/key_table.h"
#include "core/lazy_array.h"
#include "core/page_heap.h"

namespace hicache {

class TimedQueue final : public EvictionQueue {
  public:
    // by_use: the time is that of the last use, else of the store. earliest_first: or latest first.
    TimedQueue(int64_t num_pages, bool by_use, bool earliest_first)
        : nodes_(num_pages), parked_(num_pages), by_use_(by_use), earliest_first_(earliest_first) {}

    void add(uint32_t page, int32_t priority) override;
    void use(uint32_t page) override;
    void set_ready(uint32_t page, bool may_go) override;
    void remove(uint32_t page) override;
    [[nodiscard]] bool is_ready(uint32_t page) const override { return nodes_[page].ready; }
    [[nodiscard]] int64_t next() override;
    [[nodiscard]] bool contains(uint32_t page) const override {
        return nodes_[page].place != Place::kAbsent;
    }
    [[nodiscard]] int64_t size() const override { return listed_ + num_parked_; }
    void check() const override;

  private:
    enum class Place : uint8_t { kAbsent, kListed, kParked };
    struct Node {
        int64_t time;
        uint32_t before, after;  // neighbours in the list
        Place place;
        bool ready;
    };

    [[nodiscard]] uint32_t end() const { return earliest_first_ ? first_ : last_; }
    [[nodiscard]] Rank rank(uint32_t page) const {
        return {0, earliest_first_ ? nodes_[page].time : -nodes_[page].time};
    }
    void append(uint32_t page);
    void unlink(uint32_t page);
    void leave(uint32_t page);

    LazyArray<Node> nodes_;
    PageHeap parked_;  // of the parked pages all that may go, and some that may not
    uint32_t first_ = kNoPage;
    uint32_t last_ = kNoPage;
    int64_t listed_ = 0;
    int64_t num_parked_ = 0;
    int64_t now_ = 0;
    bool by_use_;
    bool earliest_first_;
};

}  // namespace hicache
