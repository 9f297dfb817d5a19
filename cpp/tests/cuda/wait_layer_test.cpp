// Streams that wait for layers of copies on the CUDA backend's stand-in: see stand_in.h.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"

namespace hicache::testing_support {
namespace {

class CudaWaitLayer : public testing::TestWithParam<Way> {
  protected:
    // Has the stream wait for every layer of a load of page 3 into page 5, and look at it then.
    void read_behind_waits(const Ticket& load, UserStream& stream) {
        for (int layer = 0; layer < 3; ++layer) {
            load.wait_layer_on_stream(layer, stream.handle());
            stream.run([this, layer] {
                const auto wanted = pools_.host_layer(pools_.host_bytes(), 3, layer);
                if (pools_.device_layer(pools_.device_bytes(), 5, layer) == wanted) ++right_;
            });
        }
    }

    TransferPools pools_{by_way(GetParam())};
    std::atomic<int> right_{0};
};

INSTANTIATE_TEST_SUITE_P(Ways, CudaWaitLayer, testing::ValuesIn(kAllWays),
                         [](const auto& tested) { return std::string(name(tested.param)); });

TEST_P(CudaWaitLayer, BeforeTheLayerIsQueued) {
    std::array<UserStream, 4> streams;  // more than may wait for flags
    pools_.engine().hold(kLoad);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    for (UserStream& stream : streams)
        read_behind_waits(load, stream);
    EXPECT_EQ(right_, 0);
    pools_.engine().release(kLoad);
    for (UserStream& stream : streams)
        stream.wait();
    EXPECT_EQ(right_, 12);
    EXPECT_TRUE(load.wait(60.0));
}

TEST_P(CudaWaitLayer, AfterTheLayerIsQueued) {
    UserStream work;
    UserStream stream;
    std::atomic<bool> go{false};
    work.run([&] { go.wait(false); });
    const Ticket load =
        pools_.submit(kLoad, {3}, {5}, std::nullopt, {pools_.engine().record(work.handle())});
    // The fence is waited for on the device: the layer is queued, or will be within the patience.
    read_behind_waits(load, stream);
    EXPECT_EQ(right_, 0);
    go = true;
    go.notify_all();
    stream.wait();
    EXPECT_EQ(right_, 3);
    EXPECT_TRUE(load.wait(60.0));
}

TEST_P(CudaWaitLayer, AfterTheEnd) {
    UserStream stream;
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    ASSERT_TRUE(load.wait(60.0));
    read_behind_waits(load, stream);
    stream.wait();
    EXPECT_EQ(right_, 3);
}

TEST_P(CudaWaitLayer, OfACopyThatFails) {
    UserStream stream;
    pools_.engine().hold(kLoad);
    pools_.engine().fail_next(kLoad, 0);
    const Ticket load = pools_.submit(kLoad, {3}, {5});
    for (int layer = 0; layer < 3; ++layer)
        load.wait_layer_on_stream(layer, stream.handle());
    pools_.engine().release(kLoad);
    stream.wait();
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_TRUE(load.error());
}

}  // namespace
}  // namespace hicache::testing_support
