#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "cuda_pools.h"

namespace hicache {
namespace {

using namespace testing_support;

TEST(TimelineOnDevice, CopiesSayTheirWayAndWhoSawTheTimes) {
    for (const Way way : {Way::kDirect, Way::kKernel, Way::kStaged}) {
        TransferPools pools{by_way(way)};
        Timeline& timeline = *pools.engine().timeline();
        timeline.start(100);
        EXPECT_TRUE(pools.submit(kLoad, {0, 3}, {1, 2}).wait(std::nullopt));
        EXPECT_TRUE(pools.submit(kLoad, {1, 2}, {4, 5}).wait(std::nullopt));
        int64_t copies = 0;
        int64_t landed = 0;
        int64_t before = 0;
        for (const TimelineSpan& each : timeline.spans()) {
            EXPECT_EQ(each.track, Track::kHostToDevice);
            EXPECT_LE(each.begin, each.end);
            if (each.kind == SpanKind::kLayers) {
                landed += each.last_layer - each.first_layer + 1;
                EXPECT_LE(before, each.end);
                before = each.end;
                EXPECT_FALSE(each.seen_by_host);  // by events on the device
            }
            if (each.kind != SpanKind::kCopy) continue;
            EXPECT_EQ(each.copy, ++copies);
            EXPECT_EQ(each.way, name(way));
            EXPECT_EQ(each.pages, 2);
            EXPECT_TRUE(each.seen_by_host);
        }
        EXPECT_EQ(copies, 2);
        EXPECT_EQ(landed, 2 * 3);  // every layer once
    }
}

}  // namespace
}  // namespace hicache
