// The system's pool of explicit huge pages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/host_bytes.h"

namespace hicache {

// As /proc/meminfo says; zeros where it says nothing.
struct HugePagePool {
    int64_t page_bytes = 0;
    int64_t total = 0;
    int64_t free = 0;      // reserved ones included
    int64_t reserved = 0;  // promised to mappings that have not touched them

    [[nodiscard]] int64_t available() const { return free - reserved; }
    // Pages that `bytes` take.
    [[nodiscard]] int64_t pages_of(int64_t bytes) const {
        return page_bytes > 0 ? (bytes + page_bytes - 1) / page_bytes : 0;
    }
};
[[nodiscard]] HugePagePool huge_page_pool();

// Why there are none for `bytes`, with the numbers and what to do.
[[nodiscard]] std::string no_huge_pages(const HugePagePool& pool, int64_t bytes);

[[nodiscard]] std::string_view name(HugePages kind);  // "off", "transparent", "explicit"
// Throws: std::invalid_argument for anything else.
[[nodiscard]] HugePages parse_huge_pages(std::string_view name);

}  // namespace hicache
