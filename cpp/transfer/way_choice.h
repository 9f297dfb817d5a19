// Which way a GPU copies, where the caller leaves it open.
#pragma once

#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"
#include "transfer/copy_options.h"

namespace hicache {

// Copy engines need some 4 us an operation whatever its size: from this many bytes an operation on,
// they reach the link's speed and cost the model nothing. Measured, see docs/architecture.md.
inline constexpr int64_t kLongOperation = 256 << 10;

// Mean bytes of what a copy engine can move as one, in layer order. 0 for no pages.
[[nodiscard]] int64_t operation_bytes(const CopyGeometry& geometry, const CopyOrder& order);

// The copy engine for pages that are one block of bytes on both sides and for long operations, else
// the kernel. Pure.
[[nodiscard]] Way choose_way(const CopyGeometry& geometry, const CopyOrder& order);

}  // namespace hicache
