#include "transfer/device_buffer.h"

#include <cstdlib>
#include <utility>

#include "core/errors.h"

namespace hicache {

void DeviceBuffer::check_shape() const {
    constexpr int64_t kMaxBytes = int64_t{1} << 62;
    if (rows <= 0 || row_bytes <= 0 || row_bytes > kMaxBytes / rows) {
        bad_argument("Device buffer of ", rows, " rows of ", row_bytes,
                     " bytes: both must be positive and a page below 2^62 bytes.");
    }
    if (address == 0) bad_argument("Device buffer with address 0.");
}

void DeviceBuffer::check_disjoint(int64_t num_pages) const {
    // Two nested strides keep apart what they hold if the larger one spans all of the smaller.
    struct Axis {
        int64_t stride;
        int64_t count;
    };
    Axis inner{std::abs(row_stride), rows};
    Axis outer{std::abs(page_stride), num_pages};
    if (inner.count <= 1) inner = {row_bytes, 1};
    if (outer.count <= 1) return;
    if (outer.stride < inner.stride) std::swap(inner, outer);
    const bool inner_fits = inner.count <= 1 || inner.stride >= row_bytes;
    const bool outer_fits =
        outer.count <= 1 || (outer.stride - row_bytes) / inner.stride >= inner.count - 1;
    if (!inner_fits || !outer_fits || outer.stride < row_bytes) {
        bad_argument("Device buffer whose pages overlap: page stride ", page_stride,
                     ", row stride ", row_stride, ", ", num_pages, " pages of ", rows, " rows of ",
                     row_bytes, " bytes.");
    }
}

}  // namespace hicache
