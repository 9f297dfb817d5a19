// How much waits in a stream behind one fence, on the CUDA backend's stand-in: see stand_in.h. A
// call on a full queue blocks, possibly with locks that the engine's own launches need.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"

namespace hicache::testing_support {
namespace {

// Of a hardware queue.
constexpr int64_t kRoom = 1024;

// Returns once nothing more has been queued for a while.
void let_queues_fill() {
    int64_t before = -1;
    for (int64_t now = 0; now != before;) {
        before = now;
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        now = deepest_queue();
    }
}

class CudaQueueDepth : public testing::TestWithParam<std::tuple<Way, Direction>> {};

TEST_P(CudaQueueDepth, SixteenCopiesBehindAPendingFenceLeaveRoom) {
    const auto [way, direction] = GetParam();
    PoolShape shape{.latent_row = 16, .layers = 61, .device_pages = 64, .host_pages = 64};
    shape.arrangement = Arrangement::kPaddedRows;
    TransferPools pools(by_way(way, shape));
    auto host = pools.host_bytes();
    auto device = pools.device_bytes();
    UserStream stream;
    std::atomic<bool> go{false};
    stream.run([&] { go.wait(false); });
    forget_deepest_queue();
    std::vector<Ticket> copies;
    for (int i = 0; i < 16; ++i) {
        copies.push_back(pools.submit(direction, first_pages(60), scattered_pages(60), std::nullopt,
                                      {pools.engine().record(stream.handle())}));
    }
    let_queues_fill();
    EXPECT_GT(deepest_queue(), 2);
    EXPECT_LT(deepest_queue(), kRoom);
    go = true;
    go.notify_all();
    for (const Ticket& copy : copies) {
        ASSERT_TRUE(copy.wait(60.0));
        EXPECT_EQ(copy.error(), std::nullopt);
    }
    EXPECT_LT(deepest_queue(), kRoom);
    std::vector<int> layers(61);
    for (int layer = 0; layer < 61; ++layer)
        layers[static_cast<size_t>(layer)] = layer;
    pools.apply(direction, first_pages(60), scattered_pages(60), layers, host, device);
    EXPECT_TRUE(pools.host_bytes() == host);
    EXPECT_TRUE(pools.device_bytes() == device);
}

INSTANTIATE_TEST_SUITE_P(Ways, CudaQueueDepth,
                         testing::Combine(testing::ValuesIn(kAllWays),
                                          testing::ValuesIn(kDirections)));

}  // namespace
}  // namespace hicache::testing_support
