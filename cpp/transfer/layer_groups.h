// Which layers of a copy are moved, and land, together. Pure arithmetic.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"

namespace hicache {

// Layers that are neighbours in the format too.
struct LayerGroup {
    int first_position;  // of first_layer in the order of the copy; the others follow it
    int first_layer;     // layers [first_layer, last_layer)
    int last_layer;

    bool operator==(const LayerGroup&) const = default;
    [[nodiscard]] int layers() const { return last_layer - first_layer; }
};

// The groups of a copy, in the order of its layers: of group_layers or fewer, > 0, and of
// most_bytes a page or fewer, but one layer at least. Where group_layers are not all of them, the
// first groups are smaller, so that the first layers land early; but not so small that the bytes of
// one take less time than to begin a group.
[[nodiscard]] std::vector<LayerGroup> layer_groups(
    const CopyGeometry& geometry, const CopyOrder& order, int group_layers,
    int64_t most_bytes = std::numeric_limits<int64_t>::max());

}  // namespace hicache
