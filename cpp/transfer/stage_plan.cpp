#include "transfer/stage_plan.h"

#include <algorithm>

#include "transfer/layer_groups.h"

namespace hicache {
namespace {

constexpr int64_t kSmallestTile = int64_t{1} << 20;

// Bytes that the next tile may have. The link is idle while a save's first tile is cut out and a
// load's last one is spread: these are small, and each other one is as long as all between it and
// that end.
int64_t most_bytes(Direction direction, int64_t done, int64_t left, int64_t bay_bytes) {
    const int64_t between = direction == Direction::kDeviceToHost ? done : left / 2;
    return std::clamp(between, std::min(kSmallestTile, bay_bytes), bay_bytes);
}

// Pages of the next tile, of those that are left of its layers. Tiles that follow each other are
// equally long where they can be: behind a long one the link waits for its bay.
int64_t pages_of_tile(int64_t pages, int64_t page_bytes, int64_t most_bytes) {
    if (page_bytes == 0) return pages;
    const int64_t room = std::max<int64_t>(most_bytes / page_bytes, 1);
    const int64_t tiles = (pages + room - 1) / room;
    return (pages + tiles - 1) / tiles;
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
    int64_t left = pages * order.page_bytes;
    int64_t done = 0;
    for (const LayerGroup& group : layer_groups(geometry, order, group_layers, bay_bytes)) {
        const int64_t bytes = geometry.page_bytes(group.first_layer, group.last_layer);
        for (int64_t page = 0; page < pages;) {
            const int64_t most = most_bytes(order.direction, done, left, bay_bytes);
            const int64_t next = page + pages_of_tile(pages - page, bytes, most);
            tiles.push_back({group.first_layer, group.last_layer, group.first_position, page,
                             next - page, next == pages});
            done += (next - page) * bytes;
            left -= (next - page) * bytes;
            page = next;
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
