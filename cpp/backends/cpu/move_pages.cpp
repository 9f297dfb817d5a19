#include "backends/cpu/move_pages.h"

#include <cstring>
#include <utility>

#include "backends/cpu/stream_copy.h"

namespace hicache {
namespace {

struct BlockCopy {
    Direction direction;
    CopyStyle style;

    void operator()(std::byte* host, std::byte* device, int64_t bytes) const {
        std::byte* to = device;
        std::byte* from = host;
        if (direction == Direction::kDeviceToHost) std::swap(to, from);
        const auto n = static_cast<size_t>(bytes);
        if (style == CopyStyle::kStreaming) {
            stream_copy(to, from, n);
        } else {
            std::memcpy(to, from, n);
        }
    }
};

}  // namespace

void move_pages(Direction direction, CopyStyle style, const Segment& segment, PageRun run,
                std::byte* host) {
    const BlockCopy copy{direction, style};
    const DeviceBuffer& buffer = segment.device;
    std::byte* source = host + segment.host_base + run.host_page * segment.host_stride;
    auto* device =
        reinterpret_cast<std::byte*>(buffer.address) + run.device_page * buffer.page_stride;
    if (segment.contiguous()) {
        copy(source, device, run.count * segment.page_bytes());
        return;
    }
    for (int64_t page = 0; page < run.count; ++page) {
        if (buffer.packed()) {
            copy(source, device, segment.page_bytes());
        } else {
            for (int64_t row = 0; row < buffer.rows; ++row) {
                copy(source + row * buffer.row_bytes, device + row * buffer.row_stride,
                     buffer.row_bytes);
            }
        }
        source += segment.host_stride;
        device += buffer.page_stride;
    }
}

}  // namespace hicache
