// One (buffer, layer) of a device pool: the engine's own memory, described by address and strides.
// Row r of page p lies at address + p * page_stride + r * row_stride.
#pragma once

#include <cstdint>

namespace hicache {

struct DeviceBuffer {
    uint64_t address;     // of page 0, row 0
    int64_t page_stride;  // bytes from a page to the next
    int64_t rows;         // rows of a page
    int64_t row_bytes;    // contiguous bytes of a row
    int64_t row_stride;   // bytes from a row to the next

    [[nodiscard]] int64_t page_bytes() const { return rows * row_bytes; }
    [[nodiscard]] bool packed() const { return rows == 1 || row_stride == row_bytes; }

    // Throws: std::invalid_argument for sizes that are not positive, or beyond 2^62 bytes.
    void check_shape() const;
    // Throws: std::invalid_argument if two rows of `num_pages` pages overlap, or there is no
    // address.
    void check_pages(int64_t num_pages) const;
};

}  // namespace hicache
