// Many random copies in flight in both directions, against the model applied in submission order.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <thread>

#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

Pages some_pages(int64_t pool, size_t n, std::mt19937_64& random) {
    Pages pages(static_cast<size_t>(pool));
    std::iota(pages.begin(), pages.end(), 0);
    std::shuffle(pages.begin(), pages.end(), random);
    pages.resize(n);
    return pages;
}

class TransferStress : public testing::TestWithParam<int> {};

TEST_P(TransferStress, ManyCopiesEndAsIfOneAfterTheOther) {
    std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
    PoolShape shape;
    shape.layout = GetParam() % 2 == 0 ? "layer_first" : "page_first";
    shape.workers = 1 + GetParam() % 3;
    TransferPools pools(shape);
    auto host_model = pools.host_bytes();
    auto device_model = pools.device_bytes();
    std::vector<Ticket> tickets;
    StreamClock compute;
    for (int step = 0; step < 150; ++step) {
        const Direction direction = random() % 2 == 0 ? kLoad : kSave;
        const size_t n = random() % 5;
        const Pages host = some_pages(shape.host_pages, n, random);
        const Pages device = some_pages(shape.device_pages, n, random);
        std::vector<int> layers{0, 1, 2};
        std::shuffle(layers.begin(), layers.end(), random);
        layers.resize(1 + random() % 3);
        const bool fails = n > 0 && random() % 10 == 0;
        const auto copied = static_cast<ptrdiff_t>(fails ? random() % (n + 1) : n);
        if (fails) pools.engine().fail_next(direction, copied);
        std::vector<FencePtr> after;
        const int64_t work = random() % 8 == 0 ? compute.submit() : 0;
        if (work != 0) after.push_back(compute.fence());
        const bool held = random() % 8 == 0;
        if (held) pools.engine().hold(direction);
        tickets.push_back(pools.submit(direction, host, device, layers, after));
        pools.apply(direction, {host.begin(), host.begin() + copied},
                    {device.begin(), device.begin() + copied}, layers, host_model, device_model);
        if (work != 0) compute.complete(work);
        if (held) pools.engine().release(direction);
        if (step % 16 == 0) pools.engine().check();
    }
    for (const auto& ticket : tickets)
        ASSERT_TRUE(ticket.wait(60.0));
    EXPECT_TRUE(pools.host_bytes() == host_model);
    EXPECT_TRUE(pools.device_bytes() == device_model);
    for (const Direction direction : kDirections) {
        EXPECT_EQ(pools.engine().in_flight(direction), 0);
    }
    pools.engine().check();
}

INSTANTIATE_TEST_SUITE_P(Seeds, TransferStress, testing::Range(0, 12));

TEST(TransferStress, SubmittersAndWaitersFromSeveralThreads) {
    PoolShape shape;
    shape.host_pages = 64;
    shape.device_pages = 64;
    TransferPools pools(shape);
    std::vector<std::thread> threads;
    for (int64_t t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
            const int64_t first = t * 16;
            for (int64_t round = 0; round < 50; ++round) {
                const Pages pages{first + round % 16, first + (round + 5) % 16};
                const Direction direction = round % 2 == 0 ? kSave : kLoad;
                const Ticket ticket = pools.submit(direction, pages, pages);
                ASSERT_TRUE(ticket.wait_layer(1, 60.0));
                ASSERT_TRUE(ticket.wait(60.0));
                ASSERT_FALSE(ticket.error());
                pools.engine().check();
            }
        });
    }
    for (auto& thread : threads)
        thread.join();
    EXPECT_EQ(pools.engine().totals(kSave).copies, 100);
    EXPECT_EQ(pools.engine().totals(kLoad).copies, 100);
}

}  // namespace
}  // namespace hicache::testing_support
