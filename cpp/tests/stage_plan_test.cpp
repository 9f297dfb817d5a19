#include "transfer/stage_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <tuple>

#include "tests/copy_orders.h"

namespace hicache {
namespace {

using testing_support::order_of;
using Pages = std::vector<int64_t>;
using Tiles = std::vector<StageTile>;

// Layer 0 and 2 have an index, layer 1 has none, layer 3 nothing at all.
const PoolFormat kFormat(4, 4, {{"latent", 40, {0, 1, 2}}, {"index_k", 8, {0, 2}}});
constexpr int64_t kRecord = 3 * 40 + 2 * 8;

CopyGeometry geometry_of(const std::string& layout, const PoolFormat& format = kFormat) {
    std::vector<DeviceBuffer> device;
    uint64_t address = 1 << 20;
    for (const auto& buffer : format.buffers()) {
        for (size_t i = 0; i < buffer.layers.size(); ++i) {
            device.push_back({address, buffer.page_bytes, 1, buffer.page_bytes, buffer.page_bytes});
            address += 1 << 20;
        }
    }
    return CopyGeometry(HostLayout(format, layout, 32), 32, device);
}

TEST(StagePlan, WholeRecordsAreTilesOfPages) {
    const auto geometry = geometry_of("page_first");
    const auto order = order_of({0, 2, 4, 6, 8}, {0, 1, 2, 3, 4}, {0, 1, 2, 3}, kRecord);
    EXPECT_EQ(stage_tiles(geometry, order, 2 * kRecord, 4),
              (Tiles{{0, 4, 0, 0, 2, false}, {0, 4, 0, 2, 2, false}, {0, 4, 0, 4, 1, true}}));
}

TEST(StagePlan, AGroupThatDoesNotFitABayIsCut) {
    const auto geometry = geometry_of("page_first");
    const auto order = order_of({1, 3}, {1, 2}, {0, 1, 2, 3}, kRecord);
    EXPECT_EQ(stage_tiles(geometry, order, 48 + 40, 4), (Tiles{{0, 2, 0, 0, 1, false},
                                                               {0, 2, 0, 1, 1, true},
                                                               {2, 4, 2, 0, 1, false},
                                                               {2, 4, 2, 1, 1, true}}));
}

TEST(StagePlan, HostNeighboursAreOnePieceWhereverTheyGo) {
    const StageTile tile{0, 1, 0, 0, 3, true};
    const auto order = order_of({4, 5, 9}, {7, 2, 0}, {0}, 48);
    std::vector<Block> blocks;
    append_tile_blocks(geometry_of("layer_first"), order.plan, tile, 1000, blocks);
    EXPECT_EQ(blocks,
              (std::vector<Block>{{4 * 48, 1000, 96, 1, 0, 0}, {9 * 48, 1096, 48, 1, 0, 0}}));
    blocks.clear();
    append_tile_blocks(geometry_of("page_first"), order.plan, tile, 1000, blocks);
    EXPECT_EQ(blocks.size(), 3u);  // a part of each record
}

// 32 MiB of one layer through bays of 16 MiB.
std::vector<int64_t> tile_mebibytes(Direction direction) {
    constexpr int64_t kMiB = int64_t{1} << 20;
    const PoolFormat format(4, 1, {{"latent", kMiB, {0}}});
    const CopyGeometry geometry(HostLayout(format, "page_first", 32), 32,
                                {{1 << 20, kMiB, 1, kMiB, kMiB}});
    Pages pages(32);
    for (int64_t i = 0; i < 32; ++i)
        pages[static_cast<size_t>(i)] = i;
    std::vector<int64_t> sizes;
    const auto order = order_of(pages, pages, {0}, kMiB, direction);
    for (const StageTile& tile : stage_tiles(geometry, order, 16 * kMiB, 1))
        sizes.push_back(tile.pages);
    return sizes;
}

TEST(StagePlan, TheTileForWhichTheLinkIsIdleIsSmall) {
    EXPECT_EQ(tile_mebibytes(Direction::kDeviceToHost), (Pages{1, 1, 2, 4, 8, 16}));
    EXPECT_EQ(tile_mebibytes(Direction::kHostToDevice), (Pages{16, 8, 4, 2, 1, 1}));
}

TEST(StagePlan, TilesOfLayersThatFollowEachOtherAreEquallyLong) {
    constexpr int64_t kKiB = 1024;
    const PoolFormat format(4, 8, {{"latent", 50 * kKiB, {0, 1, 2, 3, 4, 5, 6, 7}}});
    std::vector<DeviceBuffer> device;
    for (uint64_t layer = 1; layer <= 8; ++layer)
        device.push_back({layer << 30, 50 * kKiB, 1, 50 * kKiB, 50 * kKiB});
    const CopyGeometry geometry(HostLayout(format, "page_first", 512), 512, device);
    Pages pages(512);
    for (int64_t i = 0; i < 512; ++i)
        pages[static_cast<size_t>(i)] = i;
    const auto order = order_of(pages, pages, {0, 1, 2, 3, 4, 5, 6, 7}, 8 * 50 * kKiB);
    std::map<int, Pages> sizes;  // by first layer
    for (const StageTile& tile : stage_tiles(geometry, order, 16 * 1024 * kKiB, 2))
        sizes[tile.first_layer].push_back(tile.pages);
    EXPECT_EQ(sizes[1], (Pages{128, 128, 128, 128}));  // two layers
    EXPECT_EQ(sizes[3], sizes[1]);
    EXPECT_GT(sizes.rbegin()->second.size(), 2u);  // the end of the load
}

TEST(StagePlan, NoPagesNoTiles) {
    EXPECT_TRUE(stage_tiles(geometry_of("page_first"), order_of({}, {}, {0, 1}, 1), 99, 2).empty());
}

// What the kernel computes for a page of a layer in a bay, see KernelTile.
int64_t place_in_bay(const CopyGeometry& geometry, const StageTile& tile, int layer, int64_t page) {
    const int64_t before =
        geometry.entry(layer).in_record - geometry.entry(tile.first_layer).in_record;
    return geometry.host_records()
               ? page * geometry.page_bytes(tile.first_layer, tile.last_layer) + before
               : tile.pages * before + page * geometry.entry(layer).bytes;
}

TEST(StagePlan, EveryByteOfEveryPageGoesThroughItsPlaceOnce) {
    std::mt19937 random(7);
    for (int round = 0; round < 300; ++round) {
        const std::string layout = round % 2 == 0 ? "page_first" : "layer_first";
        const auto geometry = geometry_of(layout);
        Pages host(32);
        for (int64_t i = 0; i < 32; ++i)
            host[static_cast<size_t>(i)] = i;
        Pages device = host;
        std::shuffle(host.begin(), host.end(), random);
        std::shuffle(device.begin(), device.end(), random);
        const size_t pages = 1 + random() % 32;
        host.resize(pages);
        device.resize(pages);
        if (round % 3 == 0) std::sort(host.begin(), host.end());
        std::vector<int> layers{0, 1, 2, 3};
        if (round % 5 == 0) std::shuffle(layers.begin(), layers.end(), random);
        layers.resize(1 + random() % 4);
        const auto order = order_of(host, device, layers, kRecord);
        const auto bay_bytes = static_cast<int64_t>(48 + random() % 600);
        const int group = 1 + static_cast<int>(random() % 4);

        std::map<std::tuple<int, int64_t>, int> seen;  // (layer, place in the plan)
        int positions = 0;
        for (const StageTile& tile : stage_tiles(geometry, order, bay_bytes, group)) {
            ASSERT_LE(tile.layers(), std::max(group, 1));
            ASSERT_LE(tile.pages * geometry.page_bytes(tile.first_layer, tile.last_layer),
                      std::max(bay_bytes, geometry.page_bytes(tile.first_layer, tile.last_layer)));
            if (tile.first_page == 0) {
                ASSERT_EQ(tile.first_position, positions);
                positions += tile.layers();
            }
            ASSERT_EQ(tile.last, tile.first_page + tile.pages == order.plan.num_pages());
            std::vector<Block> blocks;
            append_tile_blocks(geometry, order.plan, tile, 0, blocks);
            std::vector<int64_t> source(static_cast<size_t>(bay_bytes + 1000), -1);
            for (const Block& block : blocks) {
                ASSERT_EQ(block.rows, 1);
                for (int64_t i = 0; i < block.width; ++i) {
                    auto& byte = source.at(block.device + static_cast<uint64_t>(i));
                    ASSERT_EQ(byte, -1);
                    byte = block.host + i;
                }
            }
            for (int layer = tile.first_layer; layer < tile.last_layer; ++layer) {
                ASSERT_EQ(
                    layers[static_cast<size_t>(tile.first_position + layer - tile.first_layer)],
                    layer);
                int64_t page = 0;
                const HostEntry& entry = geometry.entry(layer);
                order.plan.visit_pages(
                    tile.first_page, tile.first_page + tile.pages, [&](PageRun run) {
                        for (int64_t i = 0; i < run.count; ++i, ++page) {
                            const int64_t place = place_in_bay(geometry, tile, layer, page);
                            for (int64_t b = 0; b < entry.bytes; ++b) {
                                ASSERT_EQ(source.at(static_cast<size_t>(place + b)),
                                          entry.base + (run.host_page + i) * entry.stride + b);
                            }
                            ++seen[{layer, tile.first_page + page}];
                        }
                    });
            }
        }
        ASSERT_EQ(positions, static_cast<int>(layers.size()));
        ASSERT_EQ(seen.size(), layers.size() * pages);
        for (const auto& [where, times] : seen)
            ASSERT_EQ(times, 1);
    }
}

}  // namespace
}  // namespace hicache
