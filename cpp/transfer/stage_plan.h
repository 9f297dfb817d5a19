// A copy through a ring of bays on the device: which pages of which layers share a bay, and how.
//
// A copy engine moves the bytes between host pool and bay in long pieces, a kernel between bay
// and pages. In a bay pages lie one after the other, in the order of the plan, each with its
// layers side by side, where the host pool has records; else layers one after the other, each with
// its pages side by side. Pure arithmetic: same copy, same tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "transfer/block_plan.h"
#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"

namespace hicache {

// What fills one bay.
struct StageTile {
    int first_layer;  // layers [first_layer, last_layer)
    int last_layer;
    int first_position;  // of first_layer in the order of the copy; the others follow it
    int64_t first_page;  // in the order of the plan
    int64_t pages;
    bool last;  // the last tile of these layers

    bool operator==(const StageTile&) const = default;
    [[nodiscard]] int layers() const { return last_layer - first_layer; }
};

// The tiles of a copy, in the order they are to be moved: those of each of its layer_groups().
// Requires: every layer's entry fits a bay.
[[nodiscard]] std::vector<StageTile> stage_tiles(const CopyGeometry& geometry,
                                                 const CopyOrder& order, int64_t bay_bytes,
                                                 int group_layers);

// Appends the tile's pieces between the host pool and a bay at that address: neighbours in the
// host pool are one piece, wherever they go on the device.
void append_tile_blocks(const CopyGeometry& geometry, const CopyPlan& plan, const StageTile& tile,
                        uint64_t bay, std::vector<Block>& blocks);

}  // namespace hicache
