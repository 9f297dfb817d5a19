// A set of integers in [0, size) as a tree of bitmaps, 64 children a node: insert, erase, "first
// member not below i" and "largest member" each touch one word a level (four levels for 16 M).
//
// Not thread-safe; the owner serialises calls.
#pragma once

#include <cstdint>
#include <vector>

#include "core/lazy_array.h"

namespace hicache {

class BitTree {
  public:
    explicit BitTree(int64_t size);

    // Requires: 0 <= i < size.
    void insert(int64_t i);
    void erase(int64_t i);
    [[nodiscard]] bool contains(int64_t i) const;

    // Smallest member >= i, or -1. Any i >= 0.
    [[nodiscard]] int64_t first_from(int64_t i) const;
    // Largest member, or -1.
    [[nodiscard]] int64_t largest() const;

  private:
    int64_t size_;
    std::vector<LazyArray<uint64_t>> levels_;  // [0] = one bit a member, last = one word
};

}  // namespace hicache
