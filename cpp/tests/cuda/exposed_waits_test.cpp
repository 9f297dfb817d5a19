// How long streams really waited for layers, on the CUDA backend's stand-in: see stand_in.h.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"

namespace hicache::testing_support {
namespace {

constexpr std::chrono::milliseconds kHeld{200};
constexpr int64_t kAtLeast = 50'000'000;  // nanoseconds; a busy machine may run a stream late

constexpr int64_t kClockOff =
    20'000'000;  // a stand-in's clock is set while its thread is pushed off

class CudaExposedWaits : public testing::TestWithParam<Way> {
  protected:
    static void wait_for_all(const Ticket& load, UserStream& stream) {
        for (int layer = 0; layer < 3; ++layer)
            load.wait_layer_on_stream(layer, stream.handle());
    }
    // Nothing more is counted once a copy has ended.
    TransferTotals totals() { return pools_.engine().totals(kLoad); }

    TransferPools pools_{by_way(GetParam())};
    const std::chrono::steady_clock::time_point from_ = std::chrono::steady_clock::now();
    [[nodiscard]] int64_t so_far() const {
        return (std::chrono::steady_clock::now() - from_) / std::chrono::nanoseconds(1);
    }
};

INSTANTIATE_TEST_SUITE_P(Ways, CudaExposedWaits, testing::ValuesIn(kAllWays),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST_P(CudaExposedWaits, OfAStreamThatIsThereBeforeTheLayer) {
    UserStream stream;
    pools_.engine().hold(kLoad);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    wait_for_all(load, stream);
    std::this_thread::sleep_for(kHeld);
    EXPECT_EQ(totals().exposed_waits, 0);
    pools_.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_GE(totals().exposed_waits, 1);
    EXPECT_LE(totals().exposed_waits, 3);
    EXPECT_GE(totals().exposed_wait_ns, kAtLeast);
    EXPECT_LE(totals().exposed_wait_ns, so_far());
    stream.wait();
    EXPECT_EQ(pools_.engine().totals(kSave).exposed_waits, 0);
}

TEST_P(CudaExposedWaits, OfAStreamThatComesAfterTheLayer) {
    UserStream stream;
    std::atomic<bool> go{false};
    stream.run([&] { go.wait(false); });
    pools_.engine().hold(kLoad);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    wait_for_all(load, stream);
    pools_.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    go = true;
    go.notify_all();
    stream.wait();
    wait_for_all(load, stream);
    EXPECT_EQ(totals().exposed_waits, 0);
    EXPECT_EQ(totals().exposed_wait_ns, 0);
}

TEST_P(CudaExposedWaits, OfManyStreamsAndMoreThanMayWaitForFlags) {
    std::array<UserStream, 4> streams;
    UserStream work;
    std::atomic<bool> go{false};
    work.run([&] { go.wait(false); });
    const Ticket load =
        pools_.submit(kLoad, {3}, {5}, std::nullopt, {pools_.engine().record(work.handle())});
    for (UserStream& stream : streams) {
        wait_for_all(load, stream);
        wait_for_all(load, stream);  // the same again is no other wait
    }
    std::this_thread::sleep_for(kHeld);
    go = true;
    go.notify_all();
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_GE(totals().exposed_waits, 4);
    EXPECT_LE(totals().exposed_waits, 12);
    EXPECT_GE(totals().exposed_wait_ns, 4 * kAtLeast);
    EXPECT_LE(totals().exposed_wait_ns, 4 * so_far());
    for (UserStream& stream : streams)
        stream.wait();
}

TEST_P(CudaExposedWaits, OfACopyThatFailsBeforeAByteMoved) {
    std::array<UserStream, 2> streams;
    pools_.engine().hold(kLoad);
    pools_.engine().fail_next(kLoad, 0);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    for (UserStream& stream : streams)
        wait_for_all(load, stream);
    std::this_thread::sleep_for(kHeld);
    pools_.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_TRUE(load.error());
    EXPECT_EQ(totals().exposed_waits, 2);
    EXPECT_GE(totals().exposed_wait_ns, 2 * kAtLeast);
}

TEST_P(CudaExposedWaits, OfACopyThatFailsWhileTheClockCannotBeSet) {
    UserStream stream;
    pools_.engine().hold(kLoad);
    pools_.engine().fail_next(kLoad, 0);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    wait_for_all(load, stream);
    std::this_thread::sleep_for(kHeld * 2);  // the clock is to be set again
    fail_queueing_after(0);
    pools_.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    fail_no_queueing();
    EXPECT_EQ(totals().exposed_waits, 1);
    EXPECT_GE(totals().exposed_wait_ns, kAtLeast);
}

TEST_P(CudaExposedWaits, OfACopyThatFailsBehindItsPages) {
    UserStream stream;
    pools_.engine().hold(kLoad);
    pools_.engine().fail_next(kLoad, 1);
    const Ticket load = pools_.submit(kLoad, {3, 4}, {5, 6});
    wait_for_all(load, stream);
    std::this_thread::sleep_for(kHeld);
    pools_.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_TRUE(load.error());
    EXPECT_GE(totals().exposed_waits, 1);
    EXPECT_GE(totals().exposed_wait_ns, kAtLeast);
}

TEST_P(CudaExposedWaits, OfACopyThatCannotBeQueued) {
    for (int calls = 0; calls < 12; ++calls) {
        UserStream stream;
        pools_.engine().hold(kLoad);
        const Ticket load = pools_.submit(kLoad, {3}, {5});
        wait_for_all(load, stream);
        fail_queueing_after(calls);
        pools_.engine().release(kLoad);
        ASSERT_TRUE(load.wait(60.0));
        fail_no_queueing();
        EXPECT_LE(totals().exposed_waits, 3 * (calls + 1));
        stream.wait();
    }
    EXPECT_GE(totals().failed, 1);
    pools_.engine().check();
}

TEST_P(CudaExposedWaits, AStreamMayBeGoneBeforeTheLayerLands) {
    pools_.engine().hold(kLoad);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    {
        UserStream stream;
        wait_for_all(load, stream);
    }
    std::this_thread::sleep_for(kHeld);
    pools_.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_GE(totals().exposed_waits, 1);
    EXPECT_GE(totals().exposed_wait_ns, kAtLeast);
}

TEST_P(CudaExposedWaits, TheEngineMayCloseMeanwhile) {
    UserStream stream;
    pools_.engine().hold(kLoad);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    wait_for_all(load, stream);
    std::this_thread::sleep_for(kHeld);
    pools_.engine().close();
    EXPECT_GE(totals().exposed_waits, 1);
    EXPECT_GE(totals().exposed_wait_ns, kAtLeast);
    pools_.drop_engine();
    wait_for_all(load, stream);
    stream.wait();
}

TEST_P(CudaExposedWaits, AreOnTheTimelineWithTheTimesOfTheDevice) {
    for (const bool counted : {true, false}) {
        PoolShape shape = by_way(GetParam());
        shape.options.time_waits = counted;
        TransferPools pools{shape};
        UserStream stream;
        pools.engine().timeline()->start(1000);
        pools.engine().hold(kLoad);
        const int64_t submitted = steady_nanoseconds();
        const Ticket load = pools.submit(kLoad, {3}, {5});
        wait_for_all(load, stream);
        std::this_thread::sleep_for(kHeld);
        pools.engine().release(kLoad);
        ASSERT_TRUE(load.wait(60.0));
        const int64_t over = steady_nanoseconds();
        int64_t waited = 0;
        std::vector<SpanKind> kinds;
        int next = 0;
        for (const TimelineSpan& span : pools.engine().timeline()->spans()) {
            EXPECT_EQ(span.copy, 1);
            EXPECT_GE(span.begin, submitted - kClockOff);
            EXPECT_LE(span.end, over + kClockOff);
            if (span.kind == SpanKind::kWait) {
                EXPECT_EQ(span.stream, stream.handle());
                waited += span.end - span.begin;
            } else if (span.kind == SpanKind::kLayers) {
                EXPECT_FALSE(span.seen_by_host);
                EXPECT_EQ(span.first_layer, next);
                next = span.last_layer + 1;
            } else {
                kinds.push_back(span.kind);
            }
        }
        EXPECT_EQ(kinds, (std::vector<SpanKind>{SpanKind::kQueued, SpanKind::kCopy}));
        EXPECT_EQ(next, 3);
        EXPECT_GE(waited, kAtLeast);
        EXPECT_EQ(pools.engine().totals(kLoad).exposed_wait_ns, counted ? waited : 0);
        stream.wait();
    }
}

TEST_P(CudaExposedWaits, AnEngineMayNotMeasure) {
    PoolShape shape = by_way(GetParam());
    shape.options.time_waits = false;
    TransferPools pools{shape};
    UserStream stream;
    pools.engine().hold(kLoad);
    const Ticket load = pools.submit(kLoad, {3}, {5});
    wait_for_all(load, stream);
    std::this_thread::sleep_for(kHeld / 10);
    pools.engine().release(kLoad);
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 0);
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_wait_ns, 0);
    stream.wait();
}

}  // namespace
}  // namespace hicache::testing_support
