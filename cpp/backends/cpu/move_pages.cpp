#include "backends/cpu/move_pages.h"

#include <cstring>

namespace hicache {
namespace {

void copy_block(Direction direction, std::byte* host, std::byte* device, int64_t bytes) {
    if (direction == Direction::kHostToDevice) {
        std::memcpy(device, host, static_cast<size_t>(bytes));
    } else {
        std::memcpy(host, device, static_cast<size_t>(bytes));
    }
}

}  // namespace

void move_pages(Direction direction, const Segment& segment, PageRun run, std::byte* host) {
    const DeviceBuffer& buffer = segment.device;
    std::byte* source = host + segment.host_base + run.host_page * segment.host_stride;
    auto* device =
        reinterpret_cast<std::byte*>(buffer.address) + run.device_page * buffer.page_stride;
    if (segment.contiguous()) {
        copy_block(direction, source, device, run.count * segment.page_bytes());
        return;
    }
    for (int64_t page = 0; page < run.count; ++page) {
        if (buffer.packed()) {
            copy_block(direction, source, device, segment.page_bytes());
        } else {
            for (int64_t row = 0; row < buffer.rows; ++row) {
                copy_block(direction, source + row * buffer.row_bytes,
                           device + row * buffer.row_stride, buffer.row_bytes);
            }
        }
        source += segment.host_stride;
        device += buffer.page_stride;
    }
}

}  // namespace hicache
