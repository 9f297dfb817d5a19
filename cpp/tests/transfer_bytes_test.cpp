// Every byte of both memories after copies, against the byte-by-byte model: all layouts, row
// widths, device arrangements and both directions.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

using Case = std::tuple<const char*, int64_t, Arrangement>;

class TransferBytes : public testing::TestWithParam<Case> {
  protected:
    PoolShape shape() const {
        PoolShape shape;
        std::tie(shape.layout, shape.latent_row, shape.arrangement) = GetParam();
        return shape;
    }
};

// Copies, waits, and compares whole memories with the model.
void expect_copy(TransferPools& pools, Direction direction, const Pages& host, const Pages& device,
                 const std::vector<int>& layers) {
    auto host_model = pools.host_bytes();
    auto device_model = pools.device_bytes();
    pools.apply(direction, host, device, layers, host_model, device_model);
    const Ticket ticket = pools.submit(direction, host, device, layers);
    ASSERT_TRUE(ticket.wait(30.0));
    EXPECT_FALSE(ticket.error());
    EXPECT_EQ(ticket.pages_copied(), static_cast<int64_t>(host.size()));
    EXPECT_TRUE(pools.host_bytes() == host_model);
    EXPECT_TRUE(pools.device_bytes() == device_model);
    pools.engine().check();
}

TEST_P(TransferBytes, F07F08BothDirectionsAreExact) {
    TransferPools pools(shape());
    const std::vector<int> all{0, 1, 2};
    expect_copy(pools, kSave, {3, 15, 0, 7, 8}, {4, 0, 11, 5, 6}, all);
    pools.fill_device(3);
    expect_copy(pools, kLoad, {8, 7, 0, 15, 3}, {2, 1, 9, 10, 11}, all);
    expect_copy(pools, kLoad, {5, 5, 5}, {0, 1, 2}, all);           // a source may repeat
    expect_copy(pools, kSave, {1, 2, 3, 4}, {1, 2, 3, 4}, {2, 0});  // some layers only
}

TEST_P(TransferBytes, F01ThereAndBackThroughOtherPages) {
    TransferPools pools(shape());
    const auto first = pools.device_record(3);
    const auto second = pools.device_record(1);
    ASSERT_TRUE(pools.submit(kSave, {6, 2}, {3, 1}).wait(30.0));
    EXPECT_TRUE(pools.host_record(6) == first);
    pools.fill_device(9);
    ASSERT_TRUE(pools.submit(kLoad, {6, 2}, {0, 2}).wait(30.0));
    EXPECT_TRUE(pools.device_record(0) == first);
    EXPECT_TRUE(pools.device_record(2) == second);
}

TEST(TransferBytesLarge, StreamedCopiesAreExact) {
    for (const Arrangement arrangement : {Arrangement::kContiguous, Arrangement::kPaddedRows}) {
        PoolShape shape;
        shape.rows = 64;
        shape.arrangement = arrangement;
        shape.device_pages = shape.host_pages = 48;
        TransferPools pools(shape);
        Pages host(40), device(40);
        for (int64_t i = 0; i < 40; ++i) {
            host[i] = i * 29 % 47;
            device[i] = i / 8 * 8 + (i * 5) % 8;
        }
        ASSERT_GT(40 * pools.format().page_bytes(), 4 << 20);
        expect_copy(pools, kSave, host, device, {0, 1, 2});
        expect_copy(pools, kLoad, device, host, {0, 1, 2});
        expect_copy(pools, kLoad, device, device, {2, 0, 1});
    }
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    const auto& [layout, row, arrangement] = info.param;
    const char* const names[] = {"contiguous", "padded", "packed", "rows_first"};
    return std::string(layout) + "_" + std::to_string(row) + "_" +
           names[static_cast<int>(arrangement)];
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TransferBytes,
    testing::Combine(testing::Values("layer_first", "page_first", "page_first_direct"),
                     testing::Values(132, 512, 576, 656, 1152),
                     testing::Values(Arrangement::kContiguous, Arrangement::kPaddedRows,
                                     Arrangement::kPackedPages, Arrangement::kRowsFirst)),
    case_name);

}  // namespace
}  // namespace hicache::testing_support
