#include "transfer/way_choice.h"

#include <gtest/gtest.h>

#include <numeric>

#include "tests/copy_orders.h"

namespace hicache {
namespace {

using testing_support::order_of;
using Pages = std::vector<int64_t>;

constexpr int kLayers = 61;
constexpr int64_t kLatent = 41'984;
constexpr int64_t kIndex = 8'448;
constexpr int64_t kBay = int64_t{16} << 20;

std::vector<int> all_layers() {
    std::vector<int> layers(kLayers);
    std::iota(layers.begin(), layers.end(), 0);
    return layers;
}

PoolFormat format() {
    return PoolFormat(64, kLayers,
                      {{"latent", kLatent, all_layers()}, {"index_k", kIndex, all_layers()}});
}

// One array a buffer, [layer][page]; or [page][layer][buffer] on the device too.
CopyGeometry geometry_of(const std::string& layout, bool packed = false) {
    constexpr int64_t kPages = 1024;
    std::vector<DeviceBuffer> device;
    uint64_t address = 4096;
    const int64_t record = kLayers * (kLatent + kIndex);
    for (const int64_t bytes : {kLatent, kIndex}) {
        for (int layer = 0; layer < kLayers; ++layer) {
            if (packed) {
                const int64_t start = layer * (kLatent + kIndex) + (bytes == kIndex ? kLatent : 0);
                device.push_back({4096 + static_cast<uint64_t>(start), record, 1, bytes, bytes});
            } else {
                device.push_back({address, bytes, 1, bytes, bytes});
                address += static_cast<uint64_t>(kPages * bytes);
            }
        }
    }
    return CopyGeometry(HostLayout(format(), layout, kPages), kPages, device);
}

// count pages in runs of `run` on the host, scattered on the device.
CopyOrder copy_of(int64_t count, int64_t run, Direction direction, bool layerwise,
                  bool beside_compute = false) {
    Pages host;
    Pages device;
    for (int64_t i = 0; i < count; ++i) {
        host.push_back(i / run * (run + 1) + i % run);
        device.push_back((i * 7) % 1024);
    }
    return order_of(host, device, all_layers(), kLayers * (kLatent + kIndex), direction, layerwise,
                    beside_compute);
}

WayChoice choose(const CopyGeometry& geometry, const CopyOrder& order, WayLimits limits = {}) {
    if (limits.bay_bytes == 0) limits.bay_bytes = kBay;
    return choose_way(geometry, order, *typical_link_curve(), limits).choice;
}

TEST(WayChoice, ManyPagesAreStaged) {
    for (const char* layout : {"page_first", "layer_first"}) {
        const auto geometry = geometry_of(layout);
        for (const int64_t run : {1, 64}) {
            for (const bool layerwise : {false, true}) {
                const auto order = copy_of(512, run, Direction::kHostToDevice, layerwise);
                EXPECT_EQ(choose(geometry, order).way, Way::kStaged);
            }
        }
    }
    const auto save = copy_of(512, 1, Direction::kDeviceToHost, false);
    EXPECT_EQ(choose(geometry_of("page_first"), save).way, Way::kStaged);
}

TEST(WayChoice, FewPagesAreNotWorthTheWayThroughTheRing) {
    for (const char* layout : {"page_first", "layer_first"}) {
        const auto geometry = geometry_of(layout);
        for (const int64_t pages : {8, 16}) {
            for (const bool layerwise : {false, true}) {
                for (const Direction direction : kDirections) {
                    const auto choice = choose(geometry, copy_of(pages, 1, direction, layerwise));
                    EXPECT_EQ(choice.way, Way::kKernel) << layout << " " << pages;
                    EXPECT_GT(choice.group_layers, 1);
                }
            }
        }
    }
}

TEST(WayChoice, BesideAModelThatFillsTheGpuOnlyCopyEnginesWork) {
    for (const char* layout : {"page_first", "layer_first"}) {
        const auto geometry = geometry_of(layout);
        for (const bool layerwise : {false, true}) {
            for (const Direction direction : kDirections) {
                const auto order = copy_of(512, 1, direction, layerwise, true);
                EXPECT_EQ(choose(geometry, order).way, Way::kDirect);
            }
        }
    }
    const auto order = copy_of(512, 1, Direction::kDeviceToHost, false, true);
    EXPECT_EQ(choose(geometry_of("page_first"), order).group_layers, kLayers);
}

TEST(WayChoice, LayersThatAreAwaitedLandInSmallGroupsAndOthersTogether) {
    const auto geometry = geometry_of("page_first");
    EXPECT_LE(choose(geometry, copy_of(512, 1, Direction::kHostToDevice, true)).group_layers, 8);
    EXPECT_GE(choose(geometry, copy_of(512, 1, Direction::kHostToDevice, false)).group_layers, 16);
}

TEST(WayChoice, LayersThatAModelWaitsForDoNotLandAllAtOnce) {
    for (const char* layout : {"page_first", "layer_first"}) {
        const auto geometry = geometry_of(layout);
        const auto beside = choose(geometry, copy_of(512, 1, Direction::kHostToDevice, true, true));
        EXPECT_EQ(beside, (WayChoice{Way::kDirect, 1})) << layout;
        const auto idle = choose(geometry, copy_of(512, 1, Direction::kHostToDevice, true));
        EXPECT_LE(idle.group_layers, 2) << layout;  // of 61: what a model waits for in the end
    }
}

TEST(WayChoice, APageThatIsOneBlockOnBothSidesIsOneCopy) {
    const auto geometry = geometry_of("page_first", true);
    for (const Direction direction : kDirections) {
        EXPECT_EQ(choose(geometry, copy_of(64, 1, direction, false)),
                  (WayChoice{Way::kDirect, kLayers}));
    }
}

TEST(WayChoice, AWayThatIsAskedForIsTakenWhereItIsPossible) {
    const auto geometry = geometry_of("page_first");
    const auto order = copy_of(64, 1, Direction::kHostToDevice, true);
    for (const Way way : kAllWays) {
        EXPECT_EQ(choose(geometry, order, {way, 4, kBay}).way, way);
    }
    EXPECT_EQ(choose_way(geometry, order, *typical_link_curve(), {Way::kKernel, 0, 0}).choice.way,
              Way::kDirect);
    EXPECT_EQ(choose_way(geometry, order, *typical_link_curve(), {Way::kStaged, 4, 0}).choice.way,
              Way::kKernel);
}

TEST(WayChoice, TheCurveDecides) {
    const auto geometry = geometry_of("layer_first");
    const auto order = copy_of(512, 1, Direction::kHostToDevice, true);
    const LinkCosts& typical = typical_link_curve()->of(order.direction);
    // A driver without batches: every piece costs a call.
    const CostCurve calls({{8'448, 3.5e-6}, {50'432, 4.4e-6}, {3'076'352, 60e-6}});
    const LinkCosts slow{calls, typical.rectangle, typical.kernel};
    EXPECT_EQ(choose_way(geometry, order, LinkCurve{{{slow, slow}}}, {{}, 4, kBay}).choice.way,
              Way::kKernel);
    // A link that kernels use badly.
    const CostCurve crawl({{50'432, 1e-3}, {3'076'352, 60e-3}});
    const LinkCosts bad{calls, typical.rectangle, crawl};
    EXPECT_NE(choose_way(geometry, order, LinkCurve{{{bad, bad}}}, {{}, 4, kBay}).choice.way,
              Way::kKernel);
}

TEST(WayChoice, AComputingModelIsSparedTheKernel) {
    const auto geometry = geometry_of("page_first");
    const WayLimits no_ring{{}, 4, 0};
    const auto idle = copy_of(512, 1, Direction::kDeviceToHost, false, false);
    const auto busy = copy_of(512, 1, Direction::kDeviceToHost, false, true);
    EXPECT_EQ(choose_way(geometry, idle, *typical_link_curve(), no_ring).choice.way, Way::kKernel);
    EXPECT_EQ(choose_way(geometry, busy, *typical_link_curve(), no_ring).choice.way, Way::kDirect);
}

TEST(WayChoice, OneBlockOfAKernelIsSlowerThanTheRing) {
    const auto geometry = geometry_of("page_first");
    const auto order = copy_of(32, 1, Direction::kDeviceToHost, false);
    EXPECT_EQ(choose(geometry, order, {{}, 4, kBay}).way, Way::kKernel);
    EXPECT_EQ(choose(geometry, order, {{}, 1, kBay}).way, Way::kStaged);
}

TEST(WayChoice, EstimatesAddUp) {
    for (const char* layout : {"page_first", "layer_first"}) {
        const auto geometry = geometry_of(layout);
        for (const int64_t count : {1, 8, 512}) {
            for (const Direction direction : kDirections) {
                const auto order = copy_of(count, 1, direction, true);
                for (const WayChoice choice : {WayChoice{Way::kDirect, 1},
                                               {Way::kDirect, 8},
                                               {Way::kKernel, 1},
                                               {Way::kKernel, kLayers},
                                               {Way::kStaged, 1},
                                               {Way::kStaged, 8},
                                               {Way::kStaged, kLayers}}) {
                    const auto each =
                        estimate(geometry, order, *typical_link_curve(), {{}, 4, kBay}, choice);
                    const double at_peak = static_cast<double>(count * order.page_bytes) / 56e9;
                    EXPECT_GE(each.total, at_peak);
                    EXPECT_LE(each.total, 40 * at_peak);
                    EXPECT_GT(each.step, 0);
                    EXPECT_LE(each.step, 1.0001 * each.total);
                }
            }
        }
    }
}

}  // namespace
}  // namespace hicache
