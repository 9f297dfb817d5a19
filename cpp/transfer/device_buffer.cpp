#include "transfer/device_buffer.h"

#include <algorithm>
#include <array>
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
    if (std::min(page_stride, row_stride) < -kMaxBytes ||
        std::max(page_stride, row_stride) > kMaxBytes) {
        bad_argument("Device buffer with strides ", page_stride, " and ", row_stride,
                     ": both must be within 2^62 bytes.");
    }
}

void DeviceBuffer::check_pages(int64_t num_pages) const {
    if (address == 0 && num_pages > 0) {
        bad_argument("Device buffer of ", num_pages, " pages at address 0.");
    }
    struct Axis {
        int64_t stride;
        int64_t count;
    };
    std::array axes{Axis{std::abs(row_stride), rows}, Axis{std::abs(page_stride), num_pages}};
    if (axes[1].stride < axes[0].stride) std::swap(axes[0], axes[1]);
    // Nested axes keep apart what they hold if a step of each spans all that lies inside it.
    __int128 spanned = row_bytes;
    for (const auto& [stride, count] : axes) {
        if (count <= 1) continue;
        if (stride < spanned) {
            bad_argument("Device buffer whose pages overlap: page stride ", page_stride,
                         ", row stride ", row_stride, ", ", num_pages, " pages of ", rows,
                         " rows of ", row_bytes, " bytes.");
        }
        spanned += static_cast<__int128>(stride) * (count - 1);
    }
}

}  // namespace hicache
