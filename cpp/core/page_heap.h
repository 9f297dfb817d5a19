// Pages by rank, the least on top: a binary heap that knows where each page stands, so that any of
// them can leave or change its rank in O(log n).
//
// Not thread-safe; the owner serialises calls.
#pragma once

#include <compare>
#include <cstdint>
#include <vector>

#include "core/lazy_array.h"

namespace hicache {

// Compared from the left. No two pages of a heap have the same rank: `second` is a point in time.
struct Rank {
    int64_t first;
    int64_t second;
    friend auto operator<=>(const Rank&, const Rank&) = default;
};

class PageHeap {
  public:
    explicit PageHeap(int64_t num_pages) : places_(num_pages) {}

    [[nodiscard]] bool empty() const { return items_.empty(); }
    [[nodiscard]] size_t size() const { return items_.size(); }
    [[nodiscard]] bool contains(uint32_t page) const { return places_[page] != 0; }
    // Requires: not empty.
    [[nodiscard]] uint32_t top() const { return items_.front().page; }
    [[nodiscard]] const Rank& top_rank() const { return items_.front().rank; }

    // Requires: the page is not there.
    void push(uint32_t page, Rank rank);
    // Requires: the page is there.
    void erase(uint32_t page);
    void set_rank(uint32_t page, Rank rank);
    [[nodiscard]] const Rank& rank(uint32_t page) const { return items_[places_[page] - 1].rank; }

    // Throws: std::runtime_error that says where the order or a place is wrong.
    void check() const;

  private:
    struct Item {
        Rank rank;
        uint32_t page;
    };

    void put(size_t at, const Item& item);
    void sift(size_t at);

    std::vector<Item> items_;
    LazyArray<uint32_t> places_;  // by page: where in items_ + 1, 0 = not there
};

}  // namespace hicache
