#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "tests/transfer_pools.h"

namespace hicache {
namespace {

using namespace testing_support;

std::vector<TimelineSpan> of_kind(const Timeline& timeline, SpanKind kind) {
    std::vector<TimelineSpan> found;
    for (const TimelineSpan& each : timeline.spans()) {
        if (each.kind == kind) found.push_back(each);
    }
    return found;
}

TEST(TransferTimeline, ACopyIsQueuedRunsAndLandsLayerByLayer) {
    TransferPools pools{PoolShape{}};
    Timeline& timeline = *pools.engine().timeline();
    EXPECT_FALSE(timeline.on());
    timeline.start(100);
    const int64_t before = steady_nanoseconds();
    EXPECT_TRUE(pools.submit(kSave, {3, 1}, {0, 5}, std::vector<int>{2, 0}).wait(std::nullopt));
    const int64_t after = steady_nanoseconds();

    const auto copies = of_kind(timeline, SpanKind::kCopy);
    ASSERT_EQ(copies.size(), 1u);
    const TimelineSpan& copy = copies.front();
    EXPECT_EQ(copy.track, Track::kDeviceToHost);
    EXPECT_EQ(copy.copy, 1);
    EXPECT_EQ(copy.pages, 2);
    EXPECT_EQ(copy.bytes, 2 * (pools.format().layer_bytes(2) + pools.format().layer_bytes(0)));
    EXPECT_EQ(copy.text, "");
    EXPECT_FALSE(copy.seen_by_host);

    const auto queued = of_kind(timeline, SpanKind::kQueued);
    ASSERT_EQ(queued.size(), 1u);
    EXPECT_LE(before, queued.front().begin);
    EXPECT_EQ(queued.front().end, copy.begin);

    const auto layers = of_kind(timeline, SpanKind::kLayers);
    ASSERT_EQ(layers.size(), 2u);
    EXPECT_EQ(layers[0].first_layer + layers[1].first_layer, 2);
    EXPECT_EQ(layers[0].begin, copy.begin);
    EXPECT_EQ(layers[1].begin, layers[0].end);
    EXPECT_LE(layers[1].end, copy.end);
    EXPECT_LE(copy.end, after);
}

TEST(TransferTimeline, AWaitIsOfTheThreadThatStoodStill) {
    TransferPools pools{PoolShape{}};
    Timeline& timeline = *pools.engine().timeline();
    timeline.start(100);
    pools.engine().hold(kLoad);
    const Ticket ticket = pools.submit(kLoad, {0}, {1});
    int64_t waiter = 0;
    std::thread waiting([&] {
        waiter = current_thread();
        EXPECT_FALSE(ticket.wait_layer(1, 0.002));
        pools.engine().release(kLoad);
        EXPECT_TRUE(ticket.wait_layer(1, std::nullopt));
    });
    waiting.join();
    EXPECT_TRUE(ticket.wait(std::nullopt));
    EXPECT_TRUE(ticket.wait_layer(1, std::nullopt));  // has landed: nobody waits
    const auto waits = of_kind(timeline, SpanKind::kWait);
    ASSERT_GE(waits.size(), 1u);  // the second one may have found the layer there
    ASSERT_LE(waits.size(), 2u);
    for (const TimelineSpan& wait : waits) {
        EXPECT_EQ(wait.track, Track::kWaits);
        EXPECT_EQ(wait.thread, waiter);
        EXPECT_NE(wait.thread, current_thread());
        EXPECT_EQ(wait.first_layer, 1);
        EXPECT_EQ(wait.copy, 1);
        EXPECT_FALSE(wait.stream);
    }
    EXPECT_GE(waits.front().end - waits.front().begin, 2'000'000);
}

TEST(TransferTimeline, AFailedCopySaysWhyAndLandsNothing) {
    TransferPools pools{PoolShape{}};
    Timeline& timeline = *pools.engine().timeline();
    timeline.start(100);
    pools.engine().fail_next(kLoad, 1);
    EXPECT_TRUE(pools.submit(kLoad, {0, 1}, {1, 2}).wait(std::nullopt));
    EXPECT_TRUE(of_kind(timeline, SpanKind::kLayers).empty());
    const auto copies = of_kind(timeline, SpanKind::kCopy);
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies.front().pages, 1);
    EXPECT_NE(copies.front().text.find("injected failure"), std::string::npos);
}

TEST(TransferTimeline, OnlyWhatIsRecordedWhileItIsOn) {
    TransferPools pools{PoolShape{}};
    Timeline& timeline = *pools.engine().timeline();
    EXPECT_TRUE(pools.submit(kLoad, {0}, {1}).wait(std::nullopt));
    pools.engine().hold(kLoad);
    const Ticket ticket = pools.submit(kLoad, {0}, {1});
    timeline.start(100);  // between its submission and its start
    pools.engine().release(kLoad);
    EXPECT_TRUE(ticket.wait(std::nullopt));
    EXPECT_TRUE(pools.submit(kLoad, {}, {}).wait(std::nullopt));  // no pages: no copy
    EXPECT_TRUE(of_kind(timeline, SpanKind::kQueued).empty());
    const auto copies = of_kind(timeline, SpanKind::kCopy);
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies.front().copy, 2);
    timeline.stop();
    EXPECT_TRUE(pools.submit(kLoad, {0}, {1}).wait(std::nullopt));
    EXPECT_EQ(of_kind(timeline, SpanKind::kCopy).size(), 1u);
}

// Also for the thread sanitizer: copies of both directions, waits, a reader, start and stop.
TEST(TransferTimeline, CopiesAndReadersAtOnce) {
    TransferPools pools{PoolShape{}};
    const std::shared_ptr<Timeline> timeline = pools.engine().timeline();
    timeline->start(50);
    std::vector<std::thread> threads;
    for (const Direction direction : kDirections) {
        threads.emplace_back([&, direction] {
            for (int i = 0; i < 60; ++i) {
                const Ticket ticket = pools.submit(direction, {i % 8}, {i % 8});
                ticket.wait_layer(i % 3, std::nullopt);
            }
        });
    }
    for (int i = 0; i < 40; ++i) {
        if (i == 20) timeline->stop();
        if (i == 22) timeline->start(50);
        for (const TimelineSpan& each : timeline->spans())
            EXPECT_LE(each.begin, each.end);
    }
    for (auto& each : threads)
        each.join();
    pools.drop_engine();
    EXPECT_LE(timeline->spans().size(), 50u);  // lives on
}

}  // namespace
}  // namespace hicache
