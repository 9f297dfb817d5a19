// Addresses of both sides of a transfer: for each layer, which bytes of a page are copied as one.
//
// Buffers of a layer that lie side by side on the device as they do on the host are fused. Pure
// arithmetic, immutable, so safe to share between threads.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/host_layout.h"
#include "transfer/device_buffer.h"

namespace hicache {

// Bytes of a page of one layer that are contiguous on the host, and rows of them on the device.
struct Segment {
    int64_t host_base;    // offset of page 0 in the host pool
    int64_t host_stride;  // from a page to the next
    DeviceBuffer device;

    [[nodiscard]] int64_t page_bytes() const { return device.page_bytes(); }
    // Whether neighbouring pages are one block of bytes on both sides.
    [[nodiscard]] bool contiguous() const {
        return device.packed() && host_stride == page_bytes() && device.page_stride == page_bytes();
    }
};

// All buffers of a page of one layer, as they lie side by side in the host pool.
struct HostEntry {
    int64_t base;       // offset of page 0 in the host pool
    int64_t stride;     // from a page to the next
    int64_t bytes;      // 0 for a layer without buffers
    int64_t in_record;  // bytes of the layers before it
};

// Bytes of a whole page that many layers hold at equal distances on both sides, or one layer alone.
struct RecordPart {
    int64_t host_base;    // offset of the first layer's bytes of page 0
    int64_t host_stride;  // from a page to the next
    uint64_t device;      // address of the first layer's bytes of page 0
    int64_t device_stride;
    int64_t width;   // contiguous bytes of a layer
    int64_t layers;  // as many pieces of `width` bytes
    int64_t host_pitch;
    int64_t device_pitch;

    bool operator==(const RecordPart&) const = default;
};

class CopyGeometry {
  public:
    // device_buffers: for each buffer of the format, for each of its layers.
    // Throws: std::invalid_argument with the numbers for a wrong number of buffers, a page of a
    // buffer that differs from the format's, or pages that overlap.
    CopyGeometry(const HostLayout& layout, int64_t device_pages,
                 const std::vector<DeviceBuffer>& device_buffers);

    // Requires: 0 <= layer < num_layers.
    [[nodiscard]] const std::vector<Segment>& segments(int layer) const { return layers_[layer]; }

    [[nodiscard]] const HostEntry& entry(int layer) const { return entries_[layer]; }
    // Bytes of a page in layers [first, last). Requires: first < last.
    [[nodiscard]] int64_t page_bytes(int first, int last) const {
        const HostEntry& end = entries_[last - 1];
        return end.in_record + end.bytes - entries_[first].in_record;
    }
    // Whether the entries of a page lie side by side in the host pool, in the order of the layers.
    [[nodiscard]] bool host_records() const { return host_records_; }

    // The same bytes for all layers at once, where pages are packed on the device and records are
    // contiguous in the host pool; empty elsewhere. One part of one piece: a page is one block of
    // bytes on both sides.
    [[nodiscard]] const std::vector<RecordPart>& record() const { return record_; }
    // Whether `within(first, last)` holds for the device bytes [first, last] of every part with
    // several layers: those may lie in allocations of their own, equally far apart by chance.
    [[nodiscard]] bool records_within(
        const std::function<bool(uint64_t first, uint64_t last)>& within) const;
    [[nodiscard]] CopyGeometry without_records() const;
    // Whether a copy of `layers` layers that may land in groups of `group_layers` can move as
    // record().
    [[nodiscard]] bool whole_records(size_t layers, int group_layers) const {
        return !record_.empty() && layers == layers_.size() &&
               static_cast<size_t>(group_layers) >= layers;
    }

    [[nodiscard]] int num_layers() const { return static_cast<int>(layers_.size()); }

  private:
    void add(int layer, const Segment& segment);
    void join_layers();

    std::vector<std::vector<Segment>> layers_;
    std::vector<HostEntry> entries_;
    bool host_records_;
    int64_t device_pages_;
    std::vector<RecordPart> record_;
};

}  // namespace hicache
