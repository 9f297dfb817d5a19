// Copies by how long they took.
#include "transfer/transfer_counters.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <thread>
#include <vector>

#include "tests/expect_error.h"
#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

int64_t sum(const SecondsCounts& counts) {
    return std::accumulate(counts.begin(), counts.end(), int64_t{0});
}

TEST(TransferCounters, BoundsAscendFrom100MicrosecondsTo10Seconds) {
    EXPECT_EQ(kCopySecondsBounds.front(), 1e-4);
    EXPECT_EQ(kCopySecondsBounds.back(), 10.0);
    for (size_t i = 1; i < kCopySecondsBounds.size(); ++i)
        EXPECT_LT(kCopySecondsBounds[i - 1], kCopySecondsBounds[i]);
}

TEST(TransferCounters, ABoundBelongsToTheRangeThatEndsThere) {
    for (size_t i = 0; i < kCopySecondsBounds.size(); ++i) {
        const double bound = kCopySecondsBounds[i];
        const double above = std::nextafter(bound, std::numeric_limits<double>::max());
        TransferCounters counters;
        counters.submitted(1);
        counters.finished(false, 1, 100, bound);
        EXPECT_EQ(counters.totals().seconds_counts[i], 1) << bound;
        counters.submitted(1);
        counters.finished(true, 0, 0, above);
        EXPECT_EQ(counters.totals().seconds_counts[i + 1], 1) << above;
        EXPECT_EQ(sum(counters.totals().seconds_counts), 2);
        EXPECT_DOUBLE_EQ(counters.totals().seconds, bound + above);
        counters.check("h2d");
    }
}

TEST(TransferCounters, NothingIsLostOfCopiesThatEndTogether) {
    constexpr int kEach = 1000;
    TransferCounters counters;
    std::vector<std::thread> threads;
    for (const double seconds : {0.0, 0.0005, 0.25, 1000.0}) {
        threads.emplace_back([&counters, seconds] {
            for (int i = 0; i < kEach; ++i) {
                counters.submitted(1);
                counters.finished(i % 2 == 1, 1, 1, seconds);
                counters.check("d2h");
            }
        });
    }
    for (std::thread& each : threads)
        each.join();
    const TransferTotals totals = counters.totals();
    SecondsCounts expected{};
    expected[0] = expected[2] = expected[11] = expected.back() = kEach;
    EXPECT_EQ(totals.seconds_counts, expected);
    EXPECT_NEAR(totals.seconds, kEach * 1000.2505, 1e-3);
    EXPECT_EQ(totals.copies + totals.failed, 4 * kEach);
}

TEST(CopySeconds, EveryCopyThatEndedIsCountedAsLongAsItsTicketSays) {
    TransferPools pools({});
    EXPECT_EQ(sum(pools.engine().totals(kSave).seconds_counts), 0);
    double seconds = 0;
    for (int i = 0; i < 3; ++i) {
        const Ticket ticket = pools.submit(kSave, {1, 2}, {3, 4});
        EXPECT_TRUE(ticket.wait(30.0));
        seconds += ticket.seconds();
    }
    EXPECT_GT(seconds, 0);
    EXPECT_DOUBLE_EQ(pools.engine().totals(kSave).seconds, seconds);
    EXPECT_EQ(sum(pools.engine().totals(kSave).seconds_counts), 3);
    EXPECT_EQ(sum(pools.engine().totals(kLoad).seconds_counts), 0);
    pools.engine().check();
}

TEST(CopySeconds, FailedAndEmptyCopiesAreCountedAndThoseInFlightAreNot) {
    TransferPools pools({});
    EXPECT_TRUE(pools.submit(kLoad, {}, {}).wait(30.0));
    EXPECT_EQ(pools.engine().totals(kLoad).seconds_counts.front(), 1);
    EXPECT_EQ(pools.engine().totals(kLoad).seconds, 0);
    pools.engine().fail_next(kLoad, 0);
    EXPECT_TRUE(pools.submit(kLoad, {1}, {1}).wait(30.0));
    EXPECT_EQ(sum(pools.engine().totals(kLoad).seconds_counts), 2);
    pools.engine().hold(kLoad);
    const Ticket held = pools.submit(kLoad, {1}, {1});
    EXPECT_EQ(sum(pools.engine().totals(kLoad).seconds_counts), 2);
    pools.engine().check();
    pools.engine().close();
    EXPECT_EQ(sum(pools.engine().totals(kLoad).seconds_counts), 3);
    pools.engine().check();
}

TEST(CopySeconds, WaitingForAFenceIsNotCopying) {
    TransferPools pools({});
    StreamClock compute;
    const int64_t work = compute.submit();
    const Ticket behind = pools.submit(kSave, {3}, {5}, std::nullopt, {compute.fence()});
    const Ticket stuck = pools.submit(kSave, {4}, {6});  // behind it in the same direction
    compute.complete(work);
    EXPECT_TRUE(behind.wait(30.0));
    EXPECT_TRUE(stuck.wait(30.0));
    EXPECT_EQ(sum(pools.engine().totals(kSave).seconds_counts), 2);
    EXPECT_DOUBLE_EQ(pools.engine().totals(kSave).seconds, behind.seconds() + stuck.seconds());
}

TEST(CopySeconds, ACopyThatACloseGivesUpIsCountedToo) {
    TransferPools pools({});
    StreamClock compute;
    compute.submit();
    const Ticket stuck = pools.submit(kSave, {3}, {5}, std::nullopt, {compute.fence()});
    pools.engine().close(0.05);
    EXPECT_TRUE(stuck.error());
    EXPECT_EQ(sum(pools.engine().totals(kSave).seconds_counts), 1);
    EXPECT_DOUBLE_EQ(pools.engine().totals(kSave).seconds, stuck.seconds());
    pools.engine().check();
}

}  // namespace
}  // namespace hicache::testing_support
