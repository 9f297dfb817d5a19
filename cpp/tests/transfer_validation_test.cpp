// What the engine refuses, before a byte moves.
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/expect_error.h"
#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

TEST(TransferValidation, F33BadPageListsMoveNothing) {
    TransferPools pools({});
    const auto host = pools.host_bytes();
    const auto device = pools.device_bytes();
    const auto rejected = [&](Direction direction, Pages host_pages, Pages device_pages,
                              const char* text) {
        EXPECT_ERROR(pools.submit(direction, host_pages, device_pages), std::invalid_argument,
                     text);
    };
    rejected(kLoad, {1, 2}, {3}, "2 host pages and 1 device pages");
    rejected(kLoad, {1, 16}, {2, 3}, "Page 16 (entry 1) is outside the host pool of 16");
    rejected(kLoad, {1}, {12}, "Page 12 (entry 0) is outside the device pool of 12");
    rejected(kLoad, {-1}, {0}, "Page -1");
    rejected(kSave, {int64_t{1} << 31}, {0}, "Page 2147483648");
    rejected(kSave, {int64_t{1} << 32}, {0}, "Page 4294967296");
    rejected(kSave, {0}, {INT64_MIN}, "Page -9223372036854775808");
    rejected(kLoad, {1, 2}, {3, 3}, "Destination page 3 of the device pool is named twice");
    rejected(kSave, {3, 3}, {1, 2}, "Destination page 3 of the host pool is named twice");
    EXPECT_TRUE(pools.host_bytes() == host);
    EXPECT_TRUE(pools.device_bytes() == device);
    EXPECT_EQ(pools.engine().totals(kLoad).submitted, 0);
    EXPECT_TRUE(pools.submit(kSave, {3, 4}, {1, 1}).wait(30.0));  // a source may repeat
}

TEST(TransferValidation, BadLayers) {
    TransferPools pools({});
    using Layers = std::vector<int>;
    EXPECT_ERROR(pools.submit(kLoad, {1}, {1}, Layers{3}), std::invalid_argument, "Layer 3");
    EXPECT_ERROR(pools.submit(kLoad, {1}, {1}, Layers{-1}), std::invalid_argument, "Layer -1");
    EXPECT_ERROR(pools.submit(kLoad, {1}, {1}, Layers{0, 0}), std::invalid_argument, "twice");
    const Ticket ticket = pools.submit(kLoad, {1}, {1}, Layers{1});
    EXPECT_ERROR(ticket.wait_layer(3, 0.0), std::invalid_argument, "Layer 3");
    EXPECT_ERROR(ticket.layer_done(-1), std::invalid_argument, "Layer -1");
    EXPECT_TRUE(ticket.wait_layer(0, 0.0));  // not part of the copy
    EXPECT_TRUE(ticket.wait(30.0));
}

TEST(TransferValidation, F33NothingIsDoneAtOnce) {
    TransferPools pools({});
    pools.engine().hold(kLoad);
    for (const auto& ticket : {pools.submit(kLoad, {}, {}), pools.submit(kSave, {}, {})}) {
        EXPECT_TRUE(ticket.done());
        EXPECT_FALSE(ticket.error());
        EXPECT_EQ(ticket.pages(), 0);
        EXPECT_EQ(ticket.nbytes(), 0);
        EXPECT_TRUE(ticket.layer_done(1));
    }
    pools.engine().release(kLoad);
    EXPECT_TRUE(pools.submit(kLoad, {1}, {1}, std::vector<int>{}).wait(30.0));  // no layers
}

TEST(TransferValidation, PartsThatDoNotFit) {
    const PoolFormat format(4, 1, {{"latent", 40, {0}}});
    const PoolFormat other(4, 1, {{"latent", 44, {0}}});
    const HostLayout layout(format, "page_first", 10);
    std::vector<std::byte> device(400);
    const std::vector<DeviceBuffer> buffers{
        {reinterpret_cast<uint64_t>(device.data()), 40, 4, 10, 10}};
    const auto create = [&](const PoolFormat& f, const std::string& name, int64_t bytes,
                            int workers) {
        TransferEngine engine(f, name, 10, buffers, HostMemory(bytes), layout,
                              {.workers = workers});
    };
    create(format, "cpu", 400, 1);
    EXPECT_ERROR(create(other, "cpu", 400, 1), std::invalid_argument, "another format");
    EXPECT_ERROR(create(format, "cpu", 399, 1), std::invalid_argument, "has 399");
    EXPECT_ERROR(create(format, "cpu", 400, -1), std::invalid_argument, "workers is -1");
    EXPECT_ERROR(create(format, "cuda:99", 400, 1), std::runtime_error, "cuda:99");
    EXPECT_ERROR(create(format, "tpu", 400, 1), std::runtime_error, "device 'tpu'");
}

}  // namespace
}  // namespace hicache::testing_support
