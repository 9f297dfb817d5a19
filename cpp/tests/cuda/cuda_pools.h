// Pools on the stand-in's device.
#pragma once

#include <utility>

#include "tests/transfer_pools.h"

namespace hicache::testing_support {

inline PoolShape on_cuda(PoolShape shape = {}) {
    shape.device = "cuda";
    return shape;
}

inline PoolShape by_way(Way way, PoolShape shape = {}) {
    shape.options.way = way;
    return on_cuda(std::move(shape));
}

// 0, 1, ... n - 1.
inline Pages first_pages(int64_t n) {
    Pages pages(static_cast<size_t>(n));
    for (int64_t page = 0; page < n; ++page)
        pages[static_cast<size_t>(page)] = page;
    return pages;
}

// The same pages, no two neighbours side by side. n: even.
inline Pages scattered_pages(int64_t n) {
    Pages pages(static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
        pages[static_cast<size_t>(i)] = i % 2 == 0 ? i / 2 : n - 1 - i / 2;
    return pages;
}

}  // namespace hicache::testing_support
