#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <thread>
#include <vector>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"

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

// Loads and saves with streams and a thread that wait for their layers, some of them failing.
void copy_and_wait(TransferPools& pools, int rounds) {
    std::array<UserStream, 3> streams;
    for (int round = 0; round < rounds; ++round) {
        if (round % 5 == 3) pools.engine().fail_next(kLoad, round % 2);
        const Ticket load = pools.submit(kLoad, {0, 3}, {1, 2});
        const Ticket save = pools.submit(kSave, {6, 7}, {8, 9});
        for (UserStream& stream : streams) {
            for (int layer = 0; layer < 3; ++layer)
                load.wait_layer_on_stream(layer, stream.handle());
        }
        EXPECT_TRUE(load.wait_layer(2, 60.0));
        EXPECT_TRUE(save.wait(60.0));
        EXPECT_TRUE(load.wait(60.0));
    }
    for (UserStream& stream : streams)
        stream.wait();
}

TEST(TimelineOnDevice, StartsStopsAndIsReadWhileCopiesRun) {
    for (const Way way : {Way::kDirect, Way::kKernel, Way::kStaged}) {
        TransferPools pools{by_way(way)};
        Timeline& timeline = *pools.engine().timeline();
        std::atomic<bool> over{false};
        std::thread reader([&] {
            for (int turn = 0; !over; ++turn) {
                timeline.start(turn % 7 == 0 ? 1 : 50);
                for (const TimelineSpan& each : timeline.spans()) {
                    EXPECT_LE(each.begin, each.end);
                    EXPECT_GE(each.copy, 1);
                    EXPECT_LT(each.last_layer, 3);
                }
                std::this_thread::yield();
                if (turn % 3 == 0) timeline.stop();
                EXPECT_GE(pools.engine().totals(kLoad).exposed_wait_ns, 0);
            }
        });
        copy_and_wait(pools, 40);
        over = true;
        reader.join();
        pools.engine().check();
        EXPECT_EQ(pools.engine().totals(kLoad).failed, 8);
        pools.drop_engine();
    }
}

}  // namespace
}  // namespace hicache
