#include "backends/cpu/move_pages.h"

#include <cstring>
#include <utility>

#include "backends/cpu/stream_copy.h"
#include "core/page_digest.h"

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

uint64_t device_digest(std::span<const Segment> segments, int64_t device_page) {
    DigestSum sum;
    for (const Segment& segment : segments) {
        const DeviceBuffer& buffer = segment.device;
        const auto* page =
            reinterpret_cast<const std::byte*>(buffer.address) + device_page * buffer.page_stride;
        if (buffer.packed()) {
            sum.add(page, static_cast<size_t>(segment.page_bytes()));
            continue;
        }
        for (int64_t row = 0; row < buffer.rows; ++row)
            sum.add(page + row * buffer.row_stride, static_cast<size_t>(buffer.row_bytes));
    }
    return sum.digest();
}

}  // namespace hicache
