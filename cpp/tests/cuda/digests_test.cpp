// Digests on the CUDA backend's stand-in (see stand_in.h): the kernel's own code over every row
// width, arrangement and way, and the order of digests among copies.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"
#include "tests/verified_pools.h"

namespace hicache::testing_support {
namespace {

using Case = std::tuple<Way, int64_t, Arrangement>;

class CudaDigests : public testing::TestWithParam<Case> {
  protected:
    PoolShape shape(const std::string& layout) const {
        PoolShape shape;
        shape.layout = layout;
        shape.latent_row = std::get<1>(GetParam());
        shape.arrangement = std::get<2>(GetParam());
        return by_way(std::get<0>(GetParam()), shape);
    }
};

TEST_P(CudaDigests, TheTableHoldsTheDigestsOfTheHostBytes) {
    for (const char* layout : {"layer_first", "page_first", "page_first_direct"})
        expect_digests_of_host_bytes(shape(layout));
}

TEST_P(CudaDigests, AlignedToSixteenBytesAndToNone) {
    for (const int64_t gap : {0, 16, 3}) {
        PoolShape each = shape("page_first");
        each.row_gap = gap;
        each.page_gap = 2 * gap;
        each.index_row = 128;
        each.shift = gap % 16;
        expect_digests_of_host_bytes(each);
    }
}

TEST_P(CudaDigests, AChangedBitFailsTheLoad) {
    expect_changed_bits_found(shape("page_first"));
}

std::string case_name(const testing::TestParamInfo<Case>& info) {
    const auto& [way, row, arrangement] = info.param;
    const char* const names[] = {"contiguous", "padded", "packed", "rows_first"};
    return std::string(name(way)) + "_" + std::to_string(row) + "_" +
           names[static_cast<int>(arrangement)];
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, CudaDigests,
    testing::Combine(testing::ValuesIn(kAllWays),
                     testing::Values(1, 2, 132, 512, 576, 656, 1152, 1160),
                     testing::Values(Arrangement::kContiguous, Arrangement::kPaddedRows,
                                     Arrangement::kPackedPages, Arrangement::kRowsFirst)),
    case_name);

class CudaDigestOrder : public testing::TestWithParam<Way> {};

INSTANTIATE_TEST_SUITE_P(Ways, CudaDigestOrder, testing::ValuesIn(kAllWays),
                         [](const auto& tested) { return std::string(name(tested.param)); });

constexpr int64_t kPages = 12;

// Digests are queued for each group of layers by itself.
PoolShape verified(Way way, Verify verify = Verify::kAll) {
    PoolShape shape{.device_pages = 2 * kPages, .host_pages = 2 * kPages};
    shape.options.staging_bytes = 1;
    shape.options.verify = verify;
    return by_way(way, shape);
}

// Loads into the same pages one behind the other: a digest that came too late or too early would
// not be that of its own load's bytes.
TEST_P(CudaDigestOrder, DigestsAreTakenBeforeALaterLoadWritesThePages) {
    TransferPools pools(verified(GetParam()));
    Pages behind = first_pages(kPages);
    for (int64_t& page : behind)
        page += kPages;
    ASSERT_TRUE(
        pools.submit(kSave, first_pages(2 * kPages), scattered_pages(2 * kPages)).wait(60.0));
    std::vector<Ticket> loads;
    for (int round = 0; round < 40; ++round) {
        loads.push_back(pools.submit(kLoad, round % 2 == 0 ? first_pages(kPages) : behind,
                                     scattered_pages(kPages)));
    }
    for (const Ticket& load : loads) {
        ASSERT_TRUE(load.wait(60.0));
        ASSERT_FALSE(load.error()) << *load.error();
    }
    EXPECT_EQ(pools.engine().totals(kLoad).verified, 40 * kPages);
}

TEST_P(CudaDigestOrder, ASavesDigestsFollowTheStreamThatWritesItsPages) {
    TransferPools pools(verified(GetParam()));
    UserStream stream;
    stream.run([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        pools.fill_device(7);
    });
    const Ticket save = pools.submit(kSave, first_pages(kPages), scattered_pages(kPages),
                                     std::nullopt, {pools.engine().record(stream.handle())});
    const Ticket load = pools.submit(kLoad, first_pages(kPages), first_pages(kPages));
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_FALSE(save.error());
    EXPECT_FALSE(load.error()) << *load.error();
    EXPECT_EQ(pools.engine().totals(kLoad).verified, kPages);
}

TEST_P(CudaDigestOrder, LayersInAnyOrderAndSomeOnly) {
    TransferPools pools(verified(GetParam()));
    ASSERT_TRUE(pools.submit(kSave, first_pages(kPages), scattered_pages(kPages)).wait(60.0));
    pools.flip_host_bit(5, 2, 40);
    for (const std::vector<int>& layers :
         {std::vector<int>{2, 0, 1}, {1, 2}, {0, 1}, {1, 0}, {2}}) {
        const Ticket load = pools.submit(kLoad, first_pages(kPages), first_pages(kPages), layers);
        ASSERT_TRUE(load.wait(60.0));
        const bool reads_it = std::ranges::find(layers, 2) != layers.end();
        EXPECT_EQ(load.corrupt(), reads_it ? std::vector<int64_t>{5} : std::vector<int64_t>{});
    }
}

TEST_P(CudaDigestOrder, ASaveOfAnEngineThatDoesNotVerifyForgets) {
    TransferPools pools(verified(GetParam()));
    CopyOptions off;
    off.way = GetParam();
    off.digests = pools.digests();
    const auto plain = pools.another_engine(off);
    ASSERT_TRUE(pools.submit(kSave, {3, 5}, {1, 2}).wait(60.0));
    ASSERT_TRUE(plain->submit(kSave, Pages{3}, Pages{4}, std::nullopt, {}).wait(60.0));
    EXPECT_EQ(pools.digests()->get(3, 0), 0U);
    EXPECT_NE(pools.digests()->get(5, 0), 0U);
    const Ticket load = pools.submit(kLoad, {3, 5}, {6, 7});
    ASSERT_TRUE(load.wait(60.0));
    EXPECT_FALSE(load.error());
    EXPECT_EQ(pools.engine().totals(kLoad).verified, 1);
}

TEST_P(CudaDigestOrder, ASampleFindsItInTheEnd) {
    TransferPools pools(verified(GetParam(), Verify::kSample));
    ASSERT_TRUE(pools.submit(kSave, first_pages(kPages), scattered_pages(kPages)).wait(60.0));
    pools.flip_host_bit(5, 2, 40);
    int failed = 0;
    for (int i = 0; i < 150; ++i) {
        const Ticket load = pools.submit(kLoad, {5, 6}, {6, 7});
        ASSERT_TRUE(load.wait(60.0));
        failed += load.error().has_value();
    }
    EXPECT_GT(failed, 0);
    EXPECT_LT(failed, 50);
}

// Whichever call is refused: the copy fails, or is as right as without; later ones are.
TEST_P(CudaDigestOrder, ARefusedCallFailsTheCopyAndNoOther) {
    for (int calls = 0; calls < 30; ++calls) {
        TransferPools pools(verified(GetParam()));
        ASSERT_TRUE(pools.submit(kSave, first_pages(kPages), scattered_pages(kPages)).wait(60.0));
        fail_queueing_after(calls, true);
        const Ticket first = pools.submit(kLoad, first_pages(kPages), scattered_pages(kPages));
        ASSERT_TRUE(first.wait(60.0));
        fail_no_queueing();
        const Ticket second = pools.submit(kLoad, first_pages(kPages), first_pages(kPages));
        ASSERT_TRUE(second.wait(60.0));
        EXPECT_FALSE(second.error()) << calls << ": " << *second.error();
        EXPECT_TRUE(first.corrupt().empty());
        pools.engine().check();
    }
}

}  // namespace
}  // namespace hicache::testing_support
