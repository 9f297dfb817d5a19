// What fails around copies on the CUDA backend's stand-in (see stand_in.h), and goes on.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"
#include "tests/expect_error.h"

namespace hicache::testing_support {
namespace {

// As that of a device that is lost.
class LostFence : public Fence {
  public:
    [[nodiscard]] bool done() const override { throw std::runtime_error("the device is lost"); }
    bool wait(Timeout /*timeout*/) const override { return true; }
};

// Later copies of the same pages run, and the engine ends.
void expect_usable(TransferPools& pools) {
    pools.engine().check();
    EXPECT_EQ(pools.engine().in_flight(kSave), 0);
    const Ticket load = pools.submit(kLoad, {0, 2, 4, 6}, {0, 2, 4, 6});
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_EQ(load.error(), std::nullopt);
    for (const int64_t page : {0, 2, 4, 6})
        EXPECT_TRUE(pools.device_record(page) == pools.host_record(page));
    pools.engine().check();
    pools.engine().close();
}

TEST(CudaFailures, AFenceThatThrowsLeavesNoNumberWithoutACopy) {
    TransferPools pools(on_cuda());
    EXPECT_ERROR(pools.submit(kSave, {0, 2, 4, 6}, {0, 2, 4, 6}, std::nullopt,
                              {std::make_shared<LostFence>()}),
                 std::runtime_error, "the device is lost");
    expect_usable(pools);
}

TEST(CudaFailures, ACopyWithoutMemoryForItsFlagsEndsInItsTurn) {
    static int layers = 100;
    ++layers;  // flags are used again: more than any copy of this process had
    TransferPools pools(on_cuda({.latent_row = 16, .layers = layers}));
    {
        const NoPinnedMemory none;
        const Ticket save = pools.submit(kSave, {0, 2, 4, 6}, {0, 2, 4, 6});
        ASSERT_TRUE(save.wait(60.0));
        ASSERT_TRUE(save.error());
        EXPECT_NE(save.error()->find("bytes of flags"), std::string::npos) << *save.error();
        EXPECT_EQ(save.pages_copied(), 0);
    }
    expect_usable(pools);
}

TEST(CudaFailures, ARefusedCallFailsItsCopyOnly) {
    TransferPools pools(on_cuda());
    pools.engine().hold(kSave);
    fail_queueing_after(0);
    const Ticket save = pools.submit(kSave, {0, 2, 4, 6}, {0, 2, 4, 6});
    pools.engine().release(kSave);
    ASSERT_TRUE(save.wait(60.0));
    EXPECT_TRUE(save.error());
    fail_no_queueing();
    expect_usable(pools);
}

TEST(CudaFailures, ARefusedCallFailsACopyThatTheCallerQueues) {
    TransferPools pools(on_cuda());
    fail_queueing_after(0, true);
    const Ticket save = pools.submit(kSave, {0, 2, 4, 6}, {0, 2, 4, 6});
    fail_queueing_after(0);
    const Ticket load = pools.submit(kLoad, {1, 3}, {1, 3});  // on this thread again
    ASSERT_TRUE(save.wait(60.0) && load.wait(60.0));
    EXPECT_TRUE(save.error());
    EXPECT_EQ(load.error(), std::nullopt);
    fail_no_queueing();
    expect_usable(pools);
}

TEST(CudaFailures, AnotherEngineWithOtherChunksOfTheSamePoolIsRefused) {
    PoolShape shape;
    shape.options.pin_chunk_bytes = 1000;
    TransferPools pools(on_cuda(shape));
    EXPECT_ERROR(pools.another_engine({.pin_chunk_bytes = 3000}), std::runtime_error,
                 "in chunks of 1000 bytes, this one asks for 3000");
    const auto same = pools.another_engine({.pin_chunk_bytes = 1000});
    const auto any = pools.another_engine({});  // takes the chunks as they are
    pools.engine().close();                     // the pool stays pinned for the others
    any->close();
    const Ticket save = same->submit(kSave, first_pages(4), first_pages(4), std::nullopt, {});
    ASSERT_TRUE(save.wait(60.0));
    EXPECT_EQ(save.error(), std::nullopt);
    EXPECT_TRUE(pools.device_record(3) == pools.host_record(3));
}

TEST(CudaFailures, CloseOpensGatesAndFinishesCopies) {
    TransferPools pools(on_cuda());
    pools.engine().hold(kSave);
    pools.engine().hold(kLoad);
    const Ticket save = pools.submit(kSave, {3}, {5});
    const Ticket load = pools.submit(kLoad, {3}, {6});
    pools.engine().close();
    ASSERT_TRUE(save.done() && load.done());
    EXPECT_FALSE(save.error() || load.error());
    EXPECT_TRUE(pools.device_record(5) == pools.device_record(6));
    pools.engine().check();
}

TEST(CudaFailures, CloseGivesUpOnCopiesWhoseFencesDoNotComplete) {
    TransferPools pools(on_cuda());
    UserStream compute;
    UserStream reader;
    std::atomic<bool> go{false};
    compute.run([&] { go.wait(false); });
    pools.engine().hold(kSave);
    const Ticket save = pools.submit(kSave, {3}, {5});
    const Ticket stuck =
        pools.submit(kSave, {4}, {6}, std::nullopt, {pools.engine().record(compute.handle())});
    stuck.wait_layer_on_stream(0, reader.handle());
    pools.engine().close(0.01);
    ASSERT_TRUE(save.done() && stuck.done());
    EXPECT_EQ(save.error(), std::nullopt);
    EXPECT_NE(stuck.error().value_or("no error").find("closed while"), std::string::npos);
    reader.wait();  // released, though nothing was copied
    go = true;
    go.notify_all();
    compute.wait();
    pools.engine().check();
}

}  // namespace
}  // namespace hicache::testing_support
