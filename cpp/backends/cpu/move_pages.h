// The innermost step of the CPU backend: bytes of neighbouring pages, one segment of one layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "transfer/copy_geometry.h"
#include "transfer/copy_plan.h"
#include "transfer/direction.h"

namespace hicache {

enum class CopyStyle {
    kCached,     // memcpy: small copies, which the reader finds in a cache
    kStreaming,  // stream_copy: copies that no cache would hold; call stream_fence() afterwards
};

// Copies the run's pages in as few blocks as the two sides allow: one for the run, one a page, or
// one a row. host: first byte of the host pool. Requires: the two sides do not overlap.
void move_pages(Direction direction, CopyStyle style, const Segment& segment, PageRun run,
                std::byte* host);

// The digest of one page of one layer, of its bytes on the device. segments: all of the layer.
[[nodiscard]] uint64_t device_digest(std::span<const Segment> segments, int64_t device_page);

}  // namespace hicache
