// lfu, slru and priority: pages by a rank that a use never lowers, the lowest first.
//
// A heap of the pages that may go, with the rank each had when it was put in. A page that was used
// since is put where it belongs when it comes up, and one that may not go leaves when it comes up:
// a use or a pin is O(1), an eviction O(log n) amortised.
#pragma once

#include "core/eviction_queue.h"
#include "core/lazy_array.h"
#include "core/page_heap.h"

namespace hicache {

class RankedQueue : public EvictionQueue {
  public:
    explicit RankedQueue(int64_t num_pages) : nodes_(num_pages), heap_(num_pages) {}

    void add(uint32_t page, int32_t priority) override;
    void use(uint32_t page) override;
    void set_ready(uint32_t page, bool may_go) override;
    void remove(uint32_t page) override;
    [[nodiscard]] bool is_ready(uint32_t page) const override { return nodes_[page].ready; }
    [[nodiscard]] int64_t next() override;
    [[nodiscard]] bool contains(uint32_t page) const override { return nodes_[page].last_use != 0; }
    [[nodiscard]] int64_t size() const override { return size_; }
    void check() const override;

  protected:
    struct Node {
        int64_t last_use;  // 0: not in the queue
        uint32_t uses;     // the store is the first; stops at the largest number there is
        int32_t priority;
        bool ready;
    };
    // What decides before the time of the last use. Requires: a use never lowers it.
    [[nodiscard]] virtual int64_t weight(const Node& node) const = 0;

  private:
    [[nodiscard]] Rank rank(uint32_t page) const {
        return {weight(nodes_[page]), nodes_[page].last_use};
    }

    LazyArray<Node> nodes_;
    PageHeap heap_;  // all pages that may go, and some that may not
    int64_t size_ = 0;
    int64_t now_ = 0;
};

// Least frequently used, among equals least recently.
class LfuQueue final : public RankedQueue {
    using RankedQueue::RankedQueue;
    [[nodiscard]] int64_t weight(const Node& node) const override { return node.uses; }
};

// Pages that were never used since they were stored go before all others; least recently used
// within both.
class SlruQueue final : public RankedQueue {
    using RankedQueue::RankedQueue;
    [[nodiscard]] int64_t weight(const Node& node) const override { return node.uses > 1; }
};

// Lowest priority, among equals least recently used.
class PriorityQueue final : public RankedQueue {
    using RankedQueue::RankedQueue;
    [[nodiscard]] int64_t weight(const Node& node) const override { return node.priority; }
};

}  // namespace hicache
