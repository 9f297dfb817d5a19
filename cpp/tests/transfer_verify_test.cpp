// Digests taken and compared by the CPU backend: every format row, layout and arrangement.
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "core/page_digest.h"
#include "tests/transfer_pools.h"
#include "tests/verified_pools.h"

namespace hicache::testing_support {
namespace {

using Case = std::tuple<const char*, int64_t, Arrangement>;

class TransferVerify : public testing::TestWithParam<Case> {
  protected:
    PoolShape shape() const {
        PoolShape shape;
        std::tie(shape.layout, shape.latent_row, shape.arrangement) = GetParam();
        return shape;
    }
};

TEST_P(TransferVerify, TheTableHoldsTheDigestsOfTheHostBytes) {
    expect_digests_of_host_bytes(shape());
}

TEST_P(TransferVerify, AChangedBitFailsTheLoad) {
    expect_changed_bits_found(shape());
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    const auto& [layout, row, arrangement] = info.param;
    const char* const names[] = {"contiguous", "padded", "packed", "rows_first"};
    return std::string(layout) + "_" + std::to_string(row) + "_" +
           names[static_cast<int>(arrangement)];
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, TransferVerify,
    testing::Combine(testing::Values("layer_first", "page_first", "page_first_direct"),
                     testing::Values(3, 132, 512, 576, 656, 1152),
                     testing::Values(Arrangement::kContiguous, Arrangement::kPaddedRows,
                                     Arrangement::kPackedPages, Arrangement::kRowsFirst)),
    case_name);

PoolShape verified(Verify verify = Verify::kAll) {
    PoolShape shape;
    shape.options.verify = verify;
    return shape;
}

TEST(TransferVerified, StreamedCopiesAreVerifiedToo) {
    PoolShape shape = verified();
    shape.rows = 64;
    shape.device_pages = shape.host_pages = 48;
    TransferPools pools(shape);
    Pages pages(40);
    for (int64_t i = 0; i < 40; ++i)
        pages[static_cast<size_t>(i)] = i * 29 % 47;
    ASSERT_TRUE(pools.submit(kSave, pages, pages).wait(30.0));
    pools.flip_host_bit(pages[17], 2, 100);
    const Ticket load = pools.submit(kLoad, pages, pages);
    ASSERT_TRUE(load.wait(30.0));
    EXPECT_EQ(load.corrupt(), (std::vector<int64_t>{17}));
    EXPECT_EQ(load.pages_copied(), 17);
}

TEST(TransferVerified, OnlyTheLayersOfTheLoadAreCompared) {
    TransferPools pools(verified());
    ASSERT_TRUE(pools.submit(kSave, {3, 5}, {1, 2}).wait(30.0));
    pools.flip_host_bit(5, 2, 9);
    const Ticket others = pools.submit(kLoad, {3, 5}, {6, 7}, {{1, 0}});
    ASSERT_TRUE(others.wait(30.0));
    EXPECT_FALSE(others.error());
    const Ticket wrong = pools.submit(kLoad, {3, 5}, {6, 7}, {{2, 1}});
    ASSERT_TRUE(wrong.wait(30.0));
    EXPECT_EQ(wrong.corrupt(), (std::vector<int64_t>{1}));
    EXPECT_EQ(pools.engine().totals(kLoad).verified, 4);
    EXPECT_EQ(pools.engine().totals(kLoad).corrupt, 1);
    EXPECT_EQ(pools.engine().totals(kLoad).failed, 1);
}

TEST(TransferVerified, ASampleFindsItInTheEnd) {
    TransferPools pools(verified(Verify::kSample));
    ASSERT_TRUE(pools.submit(kSave, {3, 5}, {1, 2}).wait(30.0));
    pools.flip_host_bit(5, 2, 9);
    int failed = 0;
    for (int i = 0; i < 200; ++i) {
        const Ticket load = pools.submit(kLoad, {3, 5}, {6, 7});
        ASSERT_TRUE(load.wait(30.0));
        failed += load.error().has_value();
    }
    EXPECT_GT(failed, 0);
    EXPECT_LT(failed, 50);
}

TEST(TransferVerified, EnginesOfOnePoolShareTheTable) {
    TransferPools pools(verified());
    CopyOptions off;
    off.digests = pools.digests();
    const auto plain = pools.another_engine(off);
    ASSERT_TRUE(pools.submit(kSave, {3, 5}, {1, 2}).wait(30.0));
    EXPECT_NE(pools.digests()->get(3, 0), 0U);
    ASSERT_TRUE(plain->submit(kSave, Pages{3}, Pages{4}, std::nullopt, {}).wait(30.0));
    EXPECT_EQ(pools.digests()->get(3, 0), 0U);  // other bytes are there now
    EXPECT_NE(pools.digests()->get(5, 0), 0U);
    const Ticket load = pools.submit(kLoad, {3, 5}, {6, 7});
    ASSERT_TRUE(load.wait(30.0));
    EXPECT_FALSE(load.error());
    EXPECT_EQ(pools.engine().totals(kLoad).verified, 1);
    pools.flip_host_bit(5, 0, 0);
    const Ticket unseen = plain->submit(kLoad, Pages{5}, Pages{6}, std::nullopt, {});
    ASSERT_TRUE(unseen.wait(30.0));
    EXPECT_FALSE(unseen.error());
}

TEST(TransferVerified, ASaveThatFailsLeavesNoDigestOfWhatItWasToWrite) {
    TransferPools pools(verified());
    ASSERT_TRUE(pools.submit(kSave, {3, 5}, {1, 2}).wait(30.0));
    const uint64_t before = pools.digests()->get(5, 0);
    pools.engine().fail_next(kSave, 1);
    ASSERT_TRUE(pools.submit(kSave, {3, 5}, {6, 7}).wait(30.0));
    EXPECT_EQ(pools.digests()->get(5, 0), before);  // it was not written
    const Ticket load = pools.submit(kLoad, {3, 5}, {8, 9});
    ASSERT_TRUE(load.wait(30.0));
    EXPECT_FALSE(load.error());
}

TEST(TransferVerified, AnInjectedFailureDoesNotHideACorruptPage) {
    TransferPools pools(verified());
    ASSERT_TRUE(pools.submit(kSave, {3, 5, 7}, {1, 2, 3}).wait(30.0));
    pools.flip_host_bit(3, 1, 0);
    pools.engine().fail_next(kLoad, 2);
    const Ticket load = pools.submit(kLoad, {5, 3, 7}, {8, 9, 10});
    ASSERT_TRUE(load.wait(30.0));
    EXPECT_EQ(load.pages_copied(), 1);
    EXPECT_EQ(load.corrupt(), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace hicache::testing_support
