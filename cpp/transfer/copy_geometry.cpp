#include "transfer/copy_geometry.h"

#include <utility>

#include "core/errors.h"

namespace hicache {
namespace {

// Whether `next` follows `previous` directly on both sides, for every page.
bool adjacent(const Segment& previous, const Segment& next) {
    const DeviceBuffer& a = previous.device;
    const DeviceBuffer& b = next.device;
    return previous.host_base + previous.page_bytes() == next.host_base && a.packed() &&
           b.packed() && a.page_stride == b.page_stride &&
           a.address + static_cast<uint64_t>(a.page_bytes()) == b.address;
}

void check_count(const PoolFormat& format, size_t given) {
    size_t expected = 0;
    for (const auto& buffer : format.buffers())
        expected += buffer.layers.size();
    if (given != expected) {
        bad_argument("The format has ", expected,
                     " device buffers (one a buffer and owning layer), ", given, " were given.");
    }
}

void check_buffer(const BufferFormat& buffer, int layer, const DeviceBuffer& device,
                  int64_t device_pages) {
    device.check_shape();
    if (device.page_bytes() != buffer.page_bytes) {
        bad_argument("Buffer '", buffer.name, "' of layer ", layer, ": a device page has ",
                     device.rows, " rows of ", device.row_bytes, " = ", device.page_bytes(),
                     " bytes, the format says ", buffer.page_bytes, ".");
    }
    device.check_pages(device_pages);
}

}  // namespace

CopyGeometry::CopyGeometry(const HostLayout& layout, int64_t device_pages,
                           const std::vector<DeviceBuffer>& device_buffers)
    : layers_(static_cast<size_t>(layout.format().num_layers())) {
    const PoolFormat& format = layout.format();
    if (device_pages < 0) {
        bad_argument("device_pages is ", device_pages, "; it must not be negative.");
    }
    check_count(format, device_buffers.size());
    auto device = device_buffers.begin();
    for (int b = 0; b < format.num_buffers(); ++b) {
        for (const int layer : format.buffers()[b].layers) {
            check_buffer(format.buffers()[b], layer, *device, device_pages);
            add(layer, {layout.base(b, layer), layout.page_stride(layer), *device++});
        }
    }
}

void CopyGeometry::add(int layer, const Segment& segment) {
    auto& segments = layers_[layer];
    if (!segments.empty() && adjacent(segments.back(), segment)) {
        DeviceBuffer& device = segments.back().device;
        const int64_t bytes = device.page_bytes() + segment.page_bytes();
        device = {device.address, device.page_stride, 1, bytes, bytes};
    } else {
        segments.push_back(segment);
    }
}

}  // namespace hicache
