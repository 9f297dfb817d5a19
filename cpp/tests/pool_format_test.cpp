#include "core/pool_format.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>

#include "tests/expect_error.h"

namespace hicache {
namespace {

std::vector<int> layers(int n) {
    std::vector<int> all(static_cast<size_t>(n));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

TEST(PoolFormat, DeepSeekV32Record) {  // 61 layers, page 64, fp8_ds_mla: 3,076,352 B a page
    const PoolFormat format(64, 61, {{"latent", 41984, layers(61)}, {"index_k", 8448, layers(61)}});
    EXPECT_EQ(format.page_bytes(), 3076352);
    EXPECT_EQ(format.layer_bytes(60), 50432);
    EXPECT_EQ(format.start_in_layer(1, 7), 41984);
}

TEST(PoolFormat, LayersWithoutABufferHoldNoBytesForIt) {
    const PoolFormat format(4, 3, {{"latent", 100, {0, 1, 2}}, {"index_k", 7, {1}}});
    EXPECT_EQ(format.page_bytes(), 307);
    EXPECT_EQ(format.layer_bytes(0), 100);
    EXPECT_EQ(format.layer_bytes(1), 107);
    EXPECT_EQ(format.start_in_layer(1, 0), -1);
    EXPECT_EQ(format.layer_start(2), 207);
}

TEST(PoolFormat, RejectsWhatIsNoFormat) {
    using Buffers = std::vector<BufferFormat>;
    const Buffers one{{"a", 1, {0}}};
    EXPECT_ERROR(PoolFormat(0, 1, one), std::invalid_argument, "page_size is 0");
    EXPECT_ERROR(PoolFormat(1, 0, one), std::invalid_argument, "num_layers is 0");
    EXPECT_ERROR(PoolFormat(1, 1, {}), std::invalid_argument, "at least one buffer");
    EXPECT_ERROR(PoolFormat(1, 1, (Buffers{{"a", 0, {0}}})), std::invalid_argument, "is 0");
    EXPECT_ERROR(PoolFormat(1, 1, (Buffers{{"a", 1, {1}}})), std::invalid_argument, "layer 1");
    EXPECT_ERROR(PoolFormat(1, 2, (Buffers{{"a", 1, {1, 0}}})), std::invalid_argument, "ascend");
    EXPECT_ERROR(PoolFormat(1, 1, (Buffers{{"a", 1, {0}}, {"a", 1, {0}}})), std::invalid_argument,
                 "twice");
    EXPECT_ERROR(PoolFormat(1, 3, (Buffers{{"a", int64_t{1} << 61, {0, 1, 2}}})),
                 std::invalid_argument, "2^62");
    EXPECT_ERROR(PoolFormat(1, 1, one).layer_bytes(1), std::invalid_argument, "Layer 1");
}

}  // namespace
}  // namespace hicache
