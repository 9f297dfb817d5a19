#include "transfer/stage_plan.h"

#include <algorithm>

#include "transfer/layer_groups.h"

namespace hicache {
namespace {

// A copy is cut into about so many tiles, as long as they are not too small: the link is idle while
// the first one is cut out and the last one is spread.
constexpr int64_t kTiles = 8;
constexpr int64_t kSmallestTile = int64_t{1} << 20;

// Pages of each tile of a group: equally many, about tile_bytes, at most what a bay holds.
int64_t pages_of_tile(int64_t pages, int64_t bytes, int64_t tile_bytes, int64_t bay_bytes) {
    if (bytes == 0) return pages;
    const int64_t room = std::max<int64_t>(bay_bytes / bytes, 1);
    const int64_t tiles =
        std::max((pages * bytes + tile_bytes / 2) / tile_bytes, (pages + room - 1) / room);
    return tiles <= 1 ? pages : (pages + tiles - 1) / tiles;
}

// One piece, or a longer last one.
void append_piece(int64_t host, uint64_t device, int64_t bytes, std::vector<Block>& blocks,
                  size_t first) {
    if (blocks.size() > first) {
        Block& last = blocks.back();
        const bool follows = last.host + last.width == host &&
                             last.device + static_cast<uint64_t>(last.width) == device;
        if (follows) {
            last.width += bytes;
            return;
        }
    }
    blocks.push_back({host, device, bytes, 1, 0, 0});
}

}  // namespace

std::vector<StageTile> stage_tiles(const CopyGeometry& geometry, const CopyOrder& order,
                                   int64_t bay_bytes, int group_layers) {
    std::vector<StageTile> tiles;
    const int64_t pages = order.plan.num_pages();
    if (pages == 0) return tiles;
    const int64_t tile_bytes = std::clamp(pages * order.page_bytes / kTiles,
                                          std::min(kSmallestTile, bay_bytes), bay_bytes);
    for (const LayerGroup& group : layer_groups(geometry, order, group_layers, bay_bytes)) {
        const int64_t bytes = geometry.page_bytes(group.first_layer, group.last_layer);
        const int64_t room = pages_of_tile(pages, bytes, tile_bytes, bay_bytes);
        for (int64_t page = 0; page < pages; page += room) {
            tiles.push_back({group.first_layer, group.last_layer, group.first_position, page,
                             std::min(room, pages - page), page + room >= pages});
        }
    }
    return tiles;
}

void append_tile_blocks(const CopyGeometry& geometry, const CopyPlan& plan, const StageTile& tile,
                        uint64_t bay, std::vector<Block>& blocks) {
    const size_t first = blocks.size();
    const auto add = [&](const HostEntry& entry, int64_t bytes) {
        if (bytes == 0) return;
        plan.visit_pages(tile.first_page, tile.first_page + tile.pages, [&](PageRun run) {
            for (int64_t i = 0; i < run.count; ++i) {
                append_piece(entry.base + (run.host_page + i) * entry.stride, bay, bytes, blocks,
                             first);
                bay += static_cast<uint64_t>(bytes);
            }
        });
    };
    if (geometry.host_records()) {
        add(geometry.entry(tile.first_layer),
            geometry.page_bytes(tile.first_layer, tile.last_layer));
        return;
    }
    for (int layer = tile.first_layer; layer < tile.last_layer; ++layer)
        add(geometry.entry(layer), geometry.entry(layer).bytes);
}

}  // namespace hicache
