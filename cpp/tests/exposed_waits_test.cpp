// How long threads really waited for layers.
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <optional>
#include <thread>

#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

constexpr int64_t kMilliseconds = 1'000'000;  // nanoseconds

// At least one slice of so many seconds is waited for the layer of a copy that is held.
constexpr double kSlice = 0.05;

TEST(ExposedWaits, WhatLandedCostsNothing) {
    TransferPools pools{PoolShape{}};
    const Ticket load = pools.submit(kLoad, {3}, {5});
    ASSERT_TRUE(load.wait(60.0));
    for (int layer = 0; layer < 3; ++layer)
        EXPECT_TRUE(load.wait_layer(layer, std::nullopt));
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 0);
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_wait_ns, 0);
}

TEST(ExposedWaits, AWaitInSlicesIsOne) {
    TransferPools pools{PoolShape{}};
    pools.engine().hold(kLoad);
    const auto from = std::chrono::steady_clock::now();
    const Ticket load = pools.submit(kLoad, {3}, {5});
    EXPECT_FALSE(load.wait_layer(1, kSlice));
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 1);
    EXPECT_GE(pools.engine().totals(kLoad).exposed_wait_ns, 50 * kMilliseconds);
    EXPECT_FALSE(load.wait_layer(1, kSlice, true));
    EXPECT_GE(pools.engine().totals(kLoad).exposed_wait_ns, 100 * kMilliseconds);
    std::thread release([&] { pools.engine().release(kLoad); });
    EXPECT_TRUE(load.wait_layer(1, std::nullopt, true));
    release.join();
    const auto taken = std::chrono::steady_clock::now() - from;
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 1);
    EXPECT_LE(pools.engine().totals(kLoad).exposed_wait_ns, taken / std::chrono::nanoseconds(1));
    EXPECT_EQ(pools.engine().totals(kSave).exposed_waits, 0);
}

TEST(ExposedWaits, ALookIsNoWait) {
    TransferPools pools{PoolShape{}};
    pools.engine().hold(kLoad);
    const Ticket load = pools.submit(kLoad, {3}, {5});
    for (const double now : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
        EXPECT_FALSE(load.wait_layer(0, now));
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 0);
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_wait_ns, 0);
    pools.engine().release(kLoad);
}

TEST(ExposedWaits, EachThreadWaitsForItself) {
    TransferPools pools{PoolShape{}};
    pools.engine().hold(kSave);
    const Ticket save = pools.submit(kSave, {3}, {5});
    std::thread other([&] { EXPECT_FALSE(save.wait_layer(0, kSlice)); });
    EXPECT_FALSE(save.wait_layer(2, kSlice));
    other.join();
    pools.engine().release(kSave);
    EXPECT_EQ(pools.engine().totals(kSave).exposed_waits, 2);
    EXPECT_GE(pools.engine().totals(kSave).exposed_wait_ns, 100 * kMilliseconds);
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 0);
}

TEST(ExposedWaits, ACopyThatFailsWasWaitedForToo) {
    TransferPools pools{PoolShape{}};
    pools.engine().hold(kLoad);
    pools.engine().fail_next(kLoad, 0);
    const Ticket load = pools.submit(kLoad, {3}, {5});
    EXPECT_FALSE(load.wait_layer(1, kSlice));
    std::thread release([&] { pools.engine().release(kLoad); });
    EXPECT_TRUE(load.wait_layer(1, std::nullopt, true));
    release.join();
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_TRUE(load.error());
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 1);
    EXPECT_GE(pools.engine().totals(kLoad).exposed_wait_ns, 50 * kMilliseconds);
}

TEST(ExposedWaits, AnEngineMayNotMeasure) {
    PoolShape shape;
    shape.options.time_waits = false;
    TransferPools pools{shape};
    pools.engine().hold(kLoad);
    const Ticket load = pools.submit(kLoad, {3}, {5});
    EXPECT_FALSE(load.wait_layer(1, kSlice));
    pools.engine().release(kLoad);
    EXPECT_TRUE(load.wait_layer(1, std::nullopt));
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_waits, 0);
    EXPECT_EQ(pools.engine().totals(kLoad).exposed_wait_ns, 0);
}

}  // namespace
}  // namespace hicache::testing_support
