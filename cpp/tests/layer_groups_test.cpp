#include "transfer/layer_groups.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "core/host_layout.h"
#include "tests/copy_orders.h"

namespace hicache {
namespace {

using Groups = std::vector<LayerGroup>;

constexpr int kLayers = 12;
constexpr int64_t kBytes = 10;  // of a page in a layer

std::vector<int> all_layers() {
    std::vector<int> layers(kLayers);
    std::iota(layers.begin(), layers.end(), 0);
    return layers;
}

CopyGeometry geometry() {
    const PoolFormat format(1, kLayers, {{"kv", kBytes, all_layers()}});
    std::vector<DeviceBuffer> device;
    for (int layer = 0; layer < kLayers; ++layer)
        device.push_back({4096 + static_cast<uint64_t>(layer) * 4096, kBytes, 1, kBytes, kBytes});
    return CopyGeometry(HostLayout(format, "page_first", 8), 8, device);
}

std::vector<int> sizes(const Groups& groups) {
    std::vector<int> found;
    for (const LayerGroup& group : groups)
        found.push_back(group.layers());
    return found;
}

// Of many pages, or of few bytes in all.
CopyOrder order_of(std::vector<int> layers, int64_t page_bytes = int64_t{1} << 30) {
    return testing_support::order_of({0}, {0}, layers, page_bytes);
}

TEST(LayerGroups, GrowSoThatTheFirstLayersLandEarly) {
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of(all_layers()), 4)),
              (std::vector<int>{1, 2, 4, 4, 1}));
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of(all_layers()), 1)),
              std::vector<int>(kLayers, 1));
}

TEST(LayerGroups, AreNotSmallerThanIsWorthwhile) {
    const int64_t a_layer = int64_t{2} << 20;
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of(all_layers(), kLayers * a_layer), 8)),
              (std::vector<int>{2, 4, 6}));
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of(all_layers(), kLayers * a_layer), 1)),
              std::vector<int>(kLayers, 1));
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of(all_layers(), 100), 8)),
              (std::vector<int>{8, 4}));
}

TEST(LayerGroups, AllAtOnceAreOneGroup) {
    EXPECT_EQ(layer_groups(geometry(), order_of(all_layers()), kLayers), (Groups{{0, 0, kLayers}}));
    EXPECT_EQ(layer_groups(geometry(), order_of({3, 4}), kLayers), (Groups{{0, 3, 5}}));
    EXPECT_TRUE(layer_groups(geometry(), order_of({}), kLayers).empty());
}

TEST(LayerGroups, OnlyNeighboursOfTheOrderShareOne) {
    EXPECT_EQ(layer_groups(geometry(), order_of({2, 0, 1, 5}), 4),
              (Groups{{0, 2, 3}, {1, 0, 2}, {3, 5, 6}}));
}

TEST(LayerGroups, BytesOfAPageAreLimited) {
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of(all_layers()), kLayers, 5 * kBytes)),
              (std::vector<int>{5, 5, 2}));
    EXPECT_EQ(sizes(layer_groups(geometry(), order_of({7, 8}), 2, 1)), (std::vector<int>{1, 1}));
}

TEST(LayerGroups, EveryLayerIsInOneGroup) {
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        std::vector<int> layers = all_layers();
        if (round % 2 == 0) std::shuffle(layers.begin(), layers.end(), random);
        layers.resize(1 + random() % kLayers);
        const int most = 1 + static_cast<int>(random() % kLayers);
        const auto bytes = static_cast<int64_t>(random() % (kLayers * kBytes));
        const auto order = order_of(layers, int64_t{1} << (random() % 32));
        std::vector<int> seen;
        for (const LayerGroup& group : layer_groups(geometry(), order, most, bytes)) {
            ASSERT_EQ(group.first_position, static_cast<int>(seen.size()));
            ASSERT_LE(group.layers(), most);
            ASSERT_LE(geometry().page_bytes(group.first_layer, group.last_layer),
                      std::max(bytes, kBytes));
            for (int layer = group.first_layer; layer < group.last_layer; ++layer)
                seen.push_back(layer);
        }
        ASSERT_EQ(seen, layers);
    }
}

}  // namespace
}  // namespace hicache
