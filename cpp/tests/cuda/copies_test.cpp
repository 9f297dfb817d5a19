// Orders that the CUDA backend has to keep, one by one, on its stand-in: see stand_in.h.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "backends/cuda/cuda_backend.h"
#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"

namespace hicache::testing_support {
namespace {

constexpr int64_t kPages = 12;

class CudaCopies : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, CudaCopies, testing::ValuesIn(kAllWays),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST_P(CudaCopies, ALoadRightBehindASaveOfThePagesReadsWhatItWrote) {
    for (int round = 0; round < 20; ++round) {
        TransferPools pools(by_way(GetParam(), {.device_pages = 2 * kPages, .host_pages = kPages}));
        Pages behind = scattered_pages(kPages);
        for (int64_t& page : behind)
            page += kPages;
        const Ticket save = pools.submit(kSave, first_pages(kPages), scattered_pages(kPages));
        const Ticket load = pools.submit(kLoad, first_pages(kPages), behind);
        ASSERT_TRUE(load.wait(60.0));
        ASSERT_FALSE(save.error() || load.error());
        for (int64_t page = 0; page < kPages; ++page)
            ASSERT_TRUE(pools.device_record(page) == pools.device_record(page + kPages)) << page;
    }
}

TEST_P(CudaCopies, ALoadFollowsAStreamThatWritesItsHostPages) {
    TransferPools pools(by_way(GetParam()));
    UserStream stream;
    stream.run([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        pools.fill_host(7);
    });
    const Ticket load = pools.submit(kLoad, first_pages(kPages), scattered_pages(kPages),
                                     std::nullopt, {pools.engine().record(stream.handle())});
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_FALSE(load.error());
    for (int64_t i = 0; i < kPages; ++i)
        EXPECT_TRUE(pools.device_record(scattered_pages(kPages)[static_cast<size_t>(i)]) ==
                    pools.host_record(i));
}

TEST_P(CudaCopies, ASaveFollowsAStreamThatWritesItsDevicePages) {
    TransferPools pools(by_way(GetParam()));
    UserStream stream;
    stream.run([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        pools.fill_device(7);
    });
    const Ticket save = pools.submit(kSave, first_pages(kPages), first_pages(kPages), std::nullopt,
                                     {pools.engine().record(stream.handle())});
    ASSERT_TRUE(save.wait(60.0));
    EXPECT_FALSE(save.error());
    for (int64_t page = 0; page < kPages; ++page)
        EXPECT_TRUE(pools.device_record(page) == pools.host_record(page));
}

// The ring is as small as can be: each bay is used many times within one copy.
TEST(CudaCopy, ASlotOfTheRingIsNotFilledBeforeItIsEmpty) {
    constexpr int64_t kMany = 200;
    PoolShape shape{.device_pages = kMany, .host_pages = kMany};
    shape.options.staging_bytes = 1;
    TransferPools pools(by_way(Way::kStaged, shape));
    for (unsigned round = 0; round < 4; ++round) {
        for (const Direction direction : kDirections) {
            pools.fill_host(2 * round);
            pools.fill_device(2 * round + 1);
            auto host = pools.host_bytes();
            auto device = pools.device_bytes();
            pools.apply(direction, first_pages(kMany), scattered_pages(kMany), {0, 1, 2}, host,
                        device);
            const Ticket copy = pools.submit(direction, first_pages(kMany), scattered_pages(kMany));
            ASSERT_TRUE(copy.wait(60.0));
            ASSERT_FALSE(copy.error());
            ASSERT_TRUE(pools.host_bytes() == host);
            ASSERT_TRUE(pools.device_bytes() == device);
        }
    }
}

TEST(CudaCopy, WaysThatTakeTurnsIntoTheSamePagesKeepTheirOrder) {
    // Flat costs: few pieces go straight, few on the host alone through the ring, many by kernel.
    const CostCurve piece({{1, 2e-5}, {1'000'000, 2e-5}});
    const CostCurve kernel({{1, 4e-4}, {1'000'000, 4e-4}});
    const LinkCosts costs{piece, piece, kernel};
    PoolShape shape{.layout = "layer_first", .layers = 3, .device_pages = 64, .host_pages = 64};
    shape.options.link_curve = std::make_shared<const LinkCurve>(LinkCurve{{costs, costs}});
    TransferPools pools(on_cuda(shape));
    auto host = pools.host_bytes();
    auto device = pools.device_bytes();
    const Pages together = first_pages(32);
    const Pages apart = scattered_pages(32);
    Pages gaps = together;  // no two neighbours
    for (int64_t& page : gaps)
        page *= 2;
    Ticket last = pools.submit(kLoad, {0}, {0});
    pools.apply(kLoad, {0}, {0}, {0, 1, 2}, host, device);
    for (int round = 0; round < 40; ++round) {
        const Direction direction = round % 4 == 3 ? kSave : kLoad;
        const Pages& on_host = round % 3 == 2 ? gaps : together;
        const Pages& on_device = round % 3 == 0 ? together : apart;
        last = pools.submit(direction, on_host, on_device);
        pools.apply(direction, on_host, on_device, {0, 1, 2}, host, device);
        last = pools.submit(kLoad, {round}, {round + 1});
        pools.apply(kLoad, {round}, {round + 1}, {0, 1, 2}, host, device);
    }
    ASSERT_TRUE(last.wait(60.0));
    pools.engine().close(60.0);
    EXPECT_TRUE(pools.host_bytes() == host);
    EXPECT_TRUE(pools.device_bytes() == device);
    for (const Way way : kAllWays) {
        EXPECT_GT(pools.engine().totals(kLoad).by_way[static_cast<size_t>(way)], 0) << name(way);
    }
}

TEST(CudaCopy, TheLinkIsMeasuredWithTheCodeThatCopiesUse) {
    const LinkCurve curve = measure_cuda_link("cuda");
    for (const Direction direction : kDirections) {
        const LinkCosts& costs = curve.of(direction);
        for (const CostCurve* each : {&costs.piece, &costs.rectangle, &costs.kernel})
            EXPECT_GE(each->points().size(), 2U);
    }
}

}  // namespace
}  // namespace hicache::testing_support
