// When copies run: layers in order, gates, fences, conflicts between directions, injected failures.
#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "tests/expect_error.h"
#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

constexpr double kLong = 30.0;
constexpr double kMoment = 0.02;

TEST(TransferOrder, LayersLandInTheOrderGiven) {
    PoolShape shape;
    shape.layers = 8;
    shape.rows = 64;
    shape.workers = 3;
    TransferPools pools(shape);
    const std::vector<int> order{5, 1, 7, 0, 2};
    for (int round = 0; round < 20; ++round) {
        const Ticket ticket = pools.submit(kSave, {1, 2, 3}, {4, 5, 6}, order);
        // Whenever a layer is done, those before it are as well.
        while (!ticket.done()) {
            for (size_t i = order.size(); i-- > 1;) {
                if (ticket.layer_done(order[i])) {
                    EXPECT_TRUE(ticket.layer_done(order[i - 1]));
                }
            }
        }
        EXPECT_TRUE(ticket.layer_done(2));
        EXPECT_TRUE(ticket.wait_layer(7, 0.0));
    }
}

TEST(TransferOrder, ALayerThatHasLandedHasItsBytes) {
    PoolShape shape;
    shape.layers = 6;
    shape.index_layers = {0, 1, 2, 3, 4, 5};
    TransferPools pools(shape);
    auto host = pools.host_bytes();
    auto expected = pools.device_bytes();
    pools.apply(kLoad, {1, 2}, {3, 4}, {0, 1, 2, 3, 4, 5}, host, expected);
    const Ticket ticket = pools.submit(kLoad, {1, 2}, {3, 4});
    for (int layer = 0; layer < 6; ++layer)
        ASSERT_TRUE(ticket.wait_layer(layer, kLong));
    EXPECT_TRUE(pools.device_bytes() == expected);
    EXPECT_TRUE(ticket.wait(kLong));
    EXPECT_GT(ticket.seconds(), 0.0);
    EXPECT_EQ(ticket.nbytes(), 2 * pools.format().page_bytes());
}

TEST(TransferOrder, HeldCopiesStayInFlight) {
    TransferPools pools({});
    pools.engine().hold(kLoad);
    pools.engine().hold(kLoad);
    const auto before = pools.device_bytes();
    const Ticket ticket = pools.submit(kLoad, {1}, {1});
    EXPECT_FALSE(ticket.wait(kMoment));
    EXPECT_FALSE(ticket.wait_layer(0, kMoment));
    EXPECT_FALSE(ticket.done());
    EXPECT_FALSE(ticket.error());
    EXPECT_EQ(pools.engine().in_flight(kLoad), 1);
    EXPECT_TRUE(pools.submit(kSave, {2}, {2}).wait(kLong));  // the other direction runs
    pools.engine().release(kLoad);
    EXPECT_FALSE(ticket.wait(kMoment));  // counted
    EXPECT_TRUE(pools.device_bytes() == before);
    pools.engine().release(kLoad);
    EXPECT_TRUE(ticket.wait(kLong));
    EXPECT_EQ(pools.engine().in_flight(kLoad), 0);
    EXPECT_ERROR(pools.engine().release(kLoad), std::runtime_error, "h2d is not held");
}

TEST(TransferOrder, F02CopiesWaitForTheirFences) {
    TransferPools pools({});
    StreamClock compute, other;
    const int64_t work = compute.submit();
    const int64_t more = other.submit();
    const Ticket ticket =
        pools.submit(kSave, {4}, {4}, std::nullopt, {compute.fence(), other.fence()});
    compute.complete(work);
    EXPECT_FALSE(ticket.wait(kMoment));
    pools.fill_device(77);  // what the stream computes
    const auto record = pools.device_record(4);
    other.complete(more);
    EXPECT_TRUE(ticket.wait(kLong));
    EXPECT_TRUE(pools.host_record(4) == record);
}

TEST(TransferOrder, OneDirectionRunsInSubmissionOrder) {
    TransferPools pools({});
    StreamClock compute;
    const int64_t work = compute.submit();
    const Ticket first = pools.submit(kSave, {1}, {1}, std::nullopt, {compute.fence()});
    const Ticket second = pools.submit(kSave, {2}, {2});
    EXPECT_FALSE(second.wait(kMoment));
    compute.complete(work);
    EXPECT_TRUE(second.wait(kLong));
    EXPECT_TRUE(first.done());
}

// A save in flight, then a load that shares a page with it, on either tier.
TEST(TransferOrder, F03F04ConflictsBetweenDirectionsWait) {
    for (const bool share_host : {true, false}) {
        TransferPools pools({});
        pools.engine().hold(kSave);
        const auto saved = pools.device_record(5);
        const Ticket save = pools.submit(kSave, {3}, {5});
        const Ticket load = share_host ? pools.submit(kLoad, {3}, {9})   // reads what is saved
                                       : pools.submit(kLoad, {8}, {5});  // overwrites the source
        const Ticket free = pools.submit(kSave, {1}, {1});
        EXPECT_FALSE(load.wait(kMoment));
        pools.engine().release(kSave);
        EXPECT_TRUE(load.wait(kLong));
        EXPECT_TRUE(save.done());
        EXPECT_TRUE(pools.host_record(3) == saved);
        if (share_host) {
            EXPECT_TRUE(pools.device_record(9) == saved);
        }
        EXPECT_TRUE(free.wait(kLong));
    }
}

TEST(TransferOrder, IndependentCopiesOfTheOtherDirectionDoNotWait) {
    TransferPools pools({});
    pools.engine().hold(kSave);
    const Ticket save = pools.submit(kSave, {3}, {5});
    EXPECT_TRUE(pools.submit(kLoad, {4}, {6}).wait(kLong));
    EXPECT_FALSE(save.done());
    pools.engine().release(kSave);
    EXPECT_TRUE(save.wait(kLong));
}

TEST(TransferOrder, F05AnInjectedFailureCopiesWholePagesAndFails) {
    for (const int64_t after : {0, 2, 3, 100}) {
        TransferPools pools({});
        const int64_t copied = std::min<int64_t>(after, 3);
        const Pages host{7, 2, 9}, device{0, 8, 3};
        auto host_model = pools.host_bytes();
        auto expected = pools.device_bytes();
        pools.apply(kLoad, {host.begin(), host.begin() + copied},
                    {device.begin(), device.begin() + copied}, {0, 1, 2}, host_model, expected);
        pools.engine().fail_next(kLoad, after);
        EXPECT_TRUE(pools.submit(kLoad, {}, {}).done());  // no pages: no failure used up
        const Ticket ticket = pools.submit(kLoad, host, device);
        EXPECT_TRUE(ticket.wait(kLong));
        ASSERT_TRUE(ticket.error());
        EXPECT_EQ(*ticket.error(), "injected failure after " + std::to_string(copied) + " pages");
        EXPECT_EQ(ticket.pages_copied(), copied);
        EXPECT_TRUE(ticket.wait_layer(2, kLong));
        EXPECT_FALSE(ticket.layer_done(0));
        EXPECT_TRUE(pools.device_bytes() == expected);
        EXPECT_EQ(pools.engine().totals(kLoad).failed, 1);
        const Ticket next = pools.submit(kLoad, host, device);
        EXPECT_TRUE(next.wait(kLong));
        EXPECT_FALSE(next.error());
        pools.engine().check();
    }
}

TEST(TransferOrder, FailuresAddUp) {
    TransferPools pools({});
    pools.engine().fail_next(kSave, 0);
    pools.engine().fail_next(kSave, 1);
    EXPECT_ERROR(pools.engine().fail_next(kSave, -1), std::invalid_argument, "-1");
    const Ticket first = pools.submit(kSave, {1, 2}, {1, 2});
    const Ticket second = pools.submit(kSave, {1, 2}, {1, 2});
    const Ticket third = pools.submit(kSave, {1, 2}, {1, 2});
    EXPECT_TRUE(third.wait(kLong));
    EXPECT_EQ(first.pages_copied(), 0);
    EXPECT_EQ(second.pages_copied(), 1);
    EXPECT_FALSE(third.error());
    EXPECT_EQ(pools.engine().totals(kSave).pages, 3);
    EXPECT_EQ(pools.engine().totals(kSave).bytes, 3 * pools.format().page_bytes());
}

}  // namespace
}  // namespace hicache::testing_support
