#include "transfer/copy_geometry.h"

#include <algorithm>
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

// Whether `next` continues the part in the layer after its last one; sets the pitches of a part
// that has one layer so far.
bool extends(RecordPart& part, const RecordPart& next) {
    if (part.width != next.width || part.device_stride != next.device_stride) return false;
    const int64_t host_pitch = next.host_base - part.host_base;
    const auto device_pitch = static_cast<int64_t>(next.device - part.device);
    if (part.layers == 1) {
        if (host_pitch < part.width || device_pitch < part.width) return false;
        part.host_pitch = host_pitch;
        part.device_pitch = device_pitch;
    }
    return host_pitch == part.layers * part.host_pitch &&
           device_pitch == part.layers * part.device_pitch;
}

// Whether `next` follows the part without a gap on both sides.
bool follows(const RecordPart& part, const RecordPart& next) {
    return part.layers == 1 && part.device_stride == next.device_stride &&
           part.host_base + part.width == next.host_base &&
           part.device + static_cast<uint64_t>(part.width) == next.device;
}

}  // namespace

CopyGeometry::CopyGeometry(const HostLayout& layout, int64_t device_pages,
                           const std::vector<DeviceBuffer>& device_buffers)
    : layers_(static_cast<size_t>(layout.format().num_layers())),
      host_records_(layout.kind() != LayoutKind::kLayerFirst),
      device_pages_(device_pages) {
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
    for (int layer = 0; layer < format.num_layers(); ++layer) {
        const int64_t start = format.layer_start(layer);
        entries_.push_back({host_records_ ? start : start * layout.num_pages(),
                            layout.page_stride(layer), format.layer_bytes(layer), start});
    }
    if (host_records_) join_layers();
}

void CopyGeometry::join_layers() {
    std::vector<RecordPart> parts;
    for (const auto& segments : layers_) {
        for (const Segment& segment : segments) {
            if (!segment.device.packed()) return;
            const RecordPart next{segment.host_base,
                                  segment.host_stride,
                                  segment.device.address,
                                  segment.device.page_stride,
                                  segment.page_bytes(),
                                  1,
                                  0,
                                  0};
            if (!parts.empty() && follows(parts.back(), next)) {
                parts.back().width += next.width;
                continue;
            }
            const auto part = std::find_if(parts.begin(), parts.end(),
                                           [&](RecordPart& p) { return extends(p, next); });
            if (part == parts.end()) {
                parts.push_back(next);
            } else {
                ++part->layers;
            }
        }
    }
    record_ = std::move(parts);
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

bool CopyGeometry::records_within(
    const std::function<bool(uint64_t first, uint64_t last)>& within) const {
    if (device_pages_ == 0) return true;
    return std::ranges::all_of(record_, [&](const RecordPart& part) {
        if (part.layers == 1) return true;
        const int64_t last_page = (device_pages_ - 1) * part.device_stride;
        const int64_t last_byte = (part.layers - 1) * part.device_pitch + part.width - 1;
        return within(
            part.device + static_cast<uint64_t>(std::min<int64_t>(last_page, 0)),
            part.device + static_cast<uint64_t>(std::max<int64_t>(last_page, 0) + last_byte));
    });
}

CopyGeometry CopyGeometry::without_records() const {
    CopyGeometry copy = *this;
    copy.record_.clear();
    return copy;
}

}  // namespace hicache
