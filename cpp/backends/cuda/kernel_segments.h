// Segments as kernels read them, from a copy's geometry.
#pragma once

#include "backends/cuda/page_kernel.h"
#include "core/errors.h"
#include "transfer/copy_geometry.h"

namespace hicache::cuda {

// other: where page 0 lies on the other side. alignment: what else all places there are made of.
// Throws: std::invalid_argument for a page of more than kMostUnits.
[[nodiscard]] inline KernelSegment kernel_segment(const Segment& segment, uint64_t other,
                                                  int64_t other_stride, uint64_t alignment) {
    const DeviceBuffer& buffer = segment.device;
    const bool packed = buffer.packed();
    const int64_t row_bytes = packed ? segment.page_bytes() : buffer.row_bytes;
    const int64_t row_stride = packed ? 0 : buffer.row_stride;
    const int64_t unit = largest_unit(
        alignment | other | buffer.address |
        static_cast<uint64_t>(other_stride | buffer.page_stride | row_stride | row_bytes));
    if (segment.page_bytes() / unit > kMostUnits) {
        bad_argument("A page has ", segment.page_bytes(), " bytes in one layer, and kernels take ",
                     unit * kMostUnits, " at most; make pages smaller.");
    }
    return {other,
            other_stride,
            buffer.address,
            buffer.page_stride,
            row_stride,
            row_bytes / unit,
            segment.page_bytes() / unit,
            unit};
}

}  // namespace hicache::cuda
