// Random bytes that can be told again from where they belong, so that nothing has to remember them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace hicache::bench {

// What one page of the pools holds. Pages of other seeds, numbers or arrays share no byte pattern.
struct PageContent {
    uint64_t seed;
    int64_t page;

    // Writes the bytes of that page of the array-th (buffer, layer).
    void fill(int64_t array, std::span<std::byte> bytes) const;
    // Offset of the first byte that is another; nullopt if none is.
    [[nodiscard]] std::optional<int64_t> first_difference(int64_t array,
                                                          std::span<const std::byte> bytes) const;
    // The byte at that offset.
    [[nodiscard]] std::byte at(int64_t array, int64_t offset) const;
};

}  // namespace hicache::bench
