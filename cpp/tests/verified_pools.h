// What holds of digests on every backend.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/page_digest.h"
#include "tests/transfer_pools.h"

namespace hicache::testing_support {

// Saves some pages and compares the table with digests of the bytes that are in the host pool.
inline void expect_digests_of_host_bytes(PoolShape shape) {
    shape.options.verify = Verify::kAll;
    TransferPools pools(shape);
    const Pages host{6, 2, 15, 7, 1};
    const Ticket save = pools.submit(kSave, host, {3, 1, 0, 11, 4});
    ASSERT_TRUE(save.wait(60.0));
    ASSERT_FALSE(save.error()) << *save.error();
    const auto bytes = pools.host_bytes();
    for (const int64_t page : host) {
        for (int layer = 0; layer < pools.format().num_layers(); ++layer) {
            const auto entry = pools.host_layer(bytes, page, layer);
            ASSERT_EQ(pools.digests()->get(page, layer), entry.empty() ? 0 : page_digest(entry))
                << "page " << page << ", layer " << layer;
        }
    }
    const Ticket load = pools.submit(kLoad, host, {5, 6, 7, 8, 9});
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_FALSE(load.error());
    EXPECT_EQ(pools.engine().totals(kLoad).verified, 5);
    EXPECT_EQ(pools.engine().totals(kLoad).corrupt, 0);
    pools.engine().check();
}

// Changes one bit after the other in what was saved.
inline void expect_changed_bits_found(PoolShape shape) {
    shape.options.verify = Verify::kAll;
    TransferPools pools(shape);
    const Pages host{6, 2, 15, 7};
    ASSERT_TRUE(pools.submit(kSave, host, {3, 1, 0, 11}).wait(60.0));
    int64_t corrupt = 0;
    for (int layer = 0; layer < pools.format().num_layers(); ++layer) {
        const int64_t bytes = pools.format().layer_bytes(layer);
        for (const int64_t byte : {int64_t{0}, bytes / 2, bytes - 1}) {
            const int64_t wrong = (byte + layer) % 4;
            pools.flip_host_bit(host[static_cast<size_t>(wrong)], layer, byte);
            const Ticket load = pools.submit(kLoad, host, {4, 5, 6, 7});
            ASSERT_TRUE(load.wait(60.0));
            ASSERT_TRUE(load.error()) << "layer " << layer << ", byte " << byte;
            const std::string named = "host page " +
                                      std::to_string(host[static_cast<size_t>(wrong)]) +
                                      ", layer " + std::to_string(layer) + ":";
            EXPECT_NE(load.error()->find(named), std::string::npos) << *load.error();
            EXPECT_EQ(load.corrupt(), (std::vector<int64_t>{wrong}));
            EXPECT_EQ(load.pages_copied(), wrong);
            EXPECT_EQ(pools.engine().totals(kLoad).corrupt, ++corrupt);
            pools.flip_host_bit(host[static_cast<size_t>(wrong)], layer, byte);
        }
    }
    const Ticket load = pools.submit(kLoad, host, {4, 5, 6, 7});
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_FALSE(load.error());
    EXPECT_TRUE(pools.device_record(4) == pools.host_record(6));
}

}  // namespace hicache::testing_support
