#include "transfer/stage_plan.h"

#include <algorithm>

namespace hicache {
namespace {

// A copy is cut into about so many tiles, as long as they are not too small: the link is idle while
// the first one is cut out and the last one is spread.
constexpr int64_t kTiles = 8;
constexpr int64_t kSmallestTile = int64_t{1} << 20;

int64_t bytes_of_layers(const CopyGeometry& geometry, int first, int last) {
    const HostEntry& end = geometry.entry(last - 1);
    return end.in_record + end.bytes - geometry.entry(first).in_record;
}

// How many layers from that position on are neighbours, `most` at most, and fit a bay.
int group_at(const CopyGeometry& geometry, const std::vector<int>& layers, size_t position,
             int most, int64_t bay_bytes) {
    const int first = layers[position];
    int count = 1;
    while (count < most && position + count < layers.size() &&
           layers[position + count] == first + count &&
           bytes_of_layers(geometry, first, first + count + 1) <= bay_bytes)
        ++count;
    return count;
}

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
    int most = group_layers < static_cast<int>(order.layers.size()) ? 1 : group_layers;
    for (size_t position = 0; position < order.layers.size();) {
        const int count = group_at(geometry, order.layers, position, most, bay_bytes);
        const int first = order.layers[position];
        const int64_t bytes = bytes_of_layers(geometry, first, first + count);
        const int64_t room = pages_of_tile(pages, bytes, tile_bytes, bay_bytes);
        for (int64_t page = 0; page < pages; page += room) {
            tiles.push_back({first, first + count, static_cast<int>(position), page,
                             std::min(room, pages - page), page + room >= pages});
        }
        if (position > 0) most = std::min(2 * most, group_layers);
        position += static_cast<size_t>(count);
    }
    return tiles;
}

int64_t tile_page_bytes(const CopyGeometry& geometry, const StageTile& tile) {
    return bytes_of_layers(geometry, tile.first_layer, tile.last_layer);
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
        add(geometry.entry(tile.first_layer), tile_page_bytes(geometry, tile));
        return;
    }
    for (int layer = tile.first_layer; layer < tile.last_layer; ++layer)
        add(geometry.entry(layer), geometry.entry(layer).bytes);
}

}  // namespace hicache
