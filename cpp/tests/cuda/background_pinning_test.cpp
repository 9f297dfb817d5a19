// Pools that are pinned in the background, and pools of which chunks stay pageable, over the
// stand-in for the CUDA runtime.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/cuda/cuda_pools.h"
#include "tests/cuda/stand_in.h"
#include "tests/expect_error.h"

namespace hicache::testing_support {
namespace {

constexpr int64_t kChunk = 8192;

// Which of the registrations lie in that memory.
size_t registered_in(const HostMemory& memory) {
    size_t count = 0;
    for (const auto& [begin, bytes] : registrations())
        count += begin >= memory.data() && begin < memory.data() + memory.nbytes();
    return count;
}

PoolShape chunked(const std::string& layout, std::optional<Way> way) {
    PoolShape shape{.layout = layout, .device_pages = 16, .host_pages = 16};
    shape.options.way = way;
    shape.options.pin_chunk_bytes = kChunk;
    return on_cuda(shape);
}

// Copies all pages there and back, in two orders, and compares all bytes.
void copies_are_right(TransferPools& pools, const std::vector<Pages>& groups) {
    auto host = pools.host_bytes();
    auto device = pools.device_bytes();
    for (const Direction direction : {kSave, kLoad}) {
        std::vector<Ticket> copies;
        for (const Pages& group : groups) {
            copies.push_back(pools.submit(direction, group, group));
            pools.apply(direction, group, group, {0, 1, 2}, host, device);
        }
        for (const Ticket& copy : copies) {
            ASSERT_TRUE(copy.wait(60.0));
            EXPECT_EQ(copy.error(), std::nullopt);
        }
        EXPECT_TRUE(pools.host_bytes() == host);
        EXPECT_TRUE(pools.device_bytes() == device);
        pools.fill_device(99);
        device = pools.device_bytes();
    }
    pools.engine().check();
}

class MixedPools : public testing::TestWithParam<std::tuple<std::string, std::optional<Way>>> {};

TEST_P(MixedPools, F29CopiesOfPagesInRefusedChunksAreRightAndTheOthersStayFast) {
    const auto& [layout, way] = GetParam();
    for (const std::set<int64_t>& refused :
         {std::set<int64_t>{0}, std::set<int64_t>{2}, std::set<int64_t>{1, 3}}) {
        const std::byte* first = nullptr;  // of the pool, whose chunks are registered in order
        std::unique_ptr<TransferPools> pools;
        {
            const RefusedRegistrations none([&](const std::byte* begin, size_t /*bytes*/) {
                if (first == nullptr) first = begin;
                return refused.contains((begin - first) / kChunk);
            });
            pools = std::make_unique<TransferPools>(chunked(layout, way));
        }
        const auto& memory = pools->host_memory();
        const auto chunks = static_cast<size_t>((memory.nbytes() + kChunk - 1) / kChunk);
        EXPECT_EQ(registered_in(memory), chunks - refused.size());
        const std::string warning = pools->engine().warning();
        EXPECT_NE(warning.find("(chunk " + std::to_string(*refused.begin() + 1) + " of " +
                               std::to_string(chunks) + ") failed"),
                  std::string::npos)
            << warning;
        EXPECT_NE(warning.find("cudaErrorMemoryAllocation"), std::string::npos);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
        copies_are_right(*pools, {first_pages(16)});
        copies_are_right(*pools, {{0}, {1, 2}, {15, 7, 3}, {5, 6, 4}, {8, 9, 10, 11, 12, 13, 14}});
        if (layout != "layer_first" && way && *way != Way::kDirect) {
            const auto taken = pools->engine().totals(kLoad).by_way;
            EXPECT_GT(taken[static_cast<size_t>(Way::kDirect)], 0);
            EXPECT_GT(taken[static_cast<size_t>(*way)], 0) << "pinned pages kept their way";
        }
        pools->engine().close();
        EXPECT_EQ(registered_in(memory), 0U);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, MixedPools,
    testing::Combine(testing::Values("layer_first", "page_first", "page_first_direct"),
                     testing::Values(std::nullopt, Way::kDirect, Way::kKernel, Way::kStaged)));

TEST(BackgroundPinning, F29AllChunksRefusedIsAPageablePool) {
    const RefusedRegistrations none([](const std::byte*, size_t) { return true; });
    TransferPools pools(chunked("page_first", std::nullopt));
    EXPECT_NE(pools.engine().warning().find("stays pageable"), std::string::npos);
    EXPECT_EQ(registered_in(pools.host_memory()), 0U);
    copies_are_right(pools, {first_pages(16)});
}

TEST(BackgroundPinning, F29ARequiredChunkThatIsRefusedLeavesNothingRegistered) {
    for (const int64_t chunk : {0, 2}) {
        TransferPools pools(on_cuda({.options = {.pinning = Pinning::kNever}}));
        const std::byte* const first = pools.host_memory().data();
        const RefusedRegistrations one(
            [&](const std::byte* begin, size_t) { return (begin - first) / kChunk == chunk; });
        EXPECT_ERROR(pools.another_engine({.pinning = Pinning::kAlways, .pin_chunk_bytes = kChunk}),
                     std::runtime_error, "(chunk " + std::to_string(chunk + 1) + " of ");
        EXPECT_EQ(registered_in(pools.host_memory()), 0U);
        EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    }
}

TEST(BackgroundPinning, F29TwentyPoolsOneAfterTheOther) {
    for (int turn = 0; turn < 20; ++turn) {
        PoolShape shape = chunked("page_first", std::nullopt);
        shape.memory = {.threads = 2, .first_bytes = 0};
        TransferPools pools(shape);
        if (turn % 2 == 0) {
            ASSERT_TRUE(pools.host_memory().wait_ready(60.0));
            copies_are_right(pools, {first_pages(16)});
        }
        pools.engine().close();  // in the middle, every second time
        EXPECT_EQ(registered_in(pools.host_memory()), 0U);
    }
}

PoolShape held(int64_t first_bytes) {
    PoolShape shape = chunked("page_first", std::nullopt);
    shape.memory = {.threads = 2, .first_bytes = first_bytes, .step_bytes = kChunk, .held = true};
    return shape;
}

TEST(BackgroundPinning, ChunksArePinnedWhileCopiesOfTheFirstOnesRun) {
    TransferPools pools(held(2 * kChunk));
    const HostMemory& memory = pools.host_memory();
    const int64_t page = pools.format().page_bytes();
    EXPECT_EQ(registered_in(memory), 2U);
    EXPECT_EQ(memory.ready_bytes(), 2 * kChunk);
    while (memory.ready_bytes() < memory.nbytes()) {
        memory.step();
        const int64_t pages = memory.take_ready() / page;
        const Ticket save = pools.submit(kSave, first_pages(pages), first_pages(pages));
        const Ticket load = pools.submit(kLoad, first_pages(pages), first_pages(pages));
        ASSERT_TRUE(save.wait(60.0) && load.wait(60.0));
        EXPECT_FALSE(save.error() || load.error());
        pools.engine().check();
    }
    EXPECT_EQ(memory.registered().pinned, memory.nbytes());
    copies_are_right(pools, {first_pages(16)});
}

TEST(BackgroundPinning, F29AChunkRefusedInTheBackgroundIsANoteAndItsCopiesAreRight) {
    TransferPools pools(held(kChunk));
    const HostMemory& memory = pools.host_memory();
    EXPECT_EQ(pools.engine().warning(), "");
    {
        const RefusedRegistrations two([&](const std::byte* begin, size_t) {
            return begin == memory.data() + kChunk || begin == memory.data() + 2 * kChunk;
        });
        memory.unhold();
        ASSERT_TRUE(memory.wait_ready(60.0));
    }
    const auto notes = memory.take_notes();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_NE(notes[0].text.find("(chunk 2 of"), std::string::npos) << notes[0].text;
    EXPECT_NE(notes[0].text.find("cudaErrorMemoryAllocation"), std::string::npos);
    EXPECT_EQ(memory.registered().pageable, 2 * kChunk);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    copies_are_right(pools, {first_pages(16)});
    copies_are_right(pools, {{0}, {1, 2}, {15, 7, 3}, {5, 6, 4}, {8, 9, 10, 11, 12, 13, 14}});
}

TEST(BackgroundPinning, TwoEnginesOfAPoolThatGrowsShareItsRegistrations) {
    TransferPools pools(held(kChunk));
    const HostMemory& memory = pools.host_memory();
    const auto second = pools.another_engine({.pin_chunk_bytes = kChunk});
    memory.unhold();
    ASSERT_TRUE(memory.wait_ready(60.0));
    const auto chunks = static_cast<size_t>((memory.nbytes() + kChunk - 1) / kChunk);
    EXPECT_EQ(registered_in(memory), chunks);
    pools.engine().close();
    EXPECT_EQ(registered_in(memory), chunks);
    const Ticket save = second->submit(kSave, first_pages(16), first_pages(16), std::nullopt, {});
    ASSERT_TRUE(save.wait(60.0));
    EXPECT_EQ(save.error(), std::nullopt);
    EXPECT_TRUE(pools.device_record(15) == pools.host_record(15));
    second->close();
    EXPECT_EQ(registered_in(memory), 0U);
}

// Registering goes on while copies run: for the thread sanitizer.
TEST(BackgroundPinning, CopiesRunBesideRegistrations) {
    PoolShape shape{.layout = "page_first", .rows = 16, .device_pages = 64, .host_pages = 512};
    shape.options.pin_chunk_bytes = kChunk;
    shape.memory = {.threads = 2, .first_bytes = 64 * kChunk};
    TransferPools pools(on_cuda(shape));
    const HostMemory& memory = pools.host_memory();
    const int64_t page = pools.format().page_bytes();
    bool last = false;
    for (int64_t turn = 0; !last; ++turn) {
        last = memory.ended();
        const int64_t ready = memory.take_ready() / page;
        Pages host(8);
        for (int64_t i = 0; i < 8; ++i)
            host[static_cast<size_t>(i)] = ready - 1 - (turn * 8 + i) % ready;
        const Ticket save = pools.submit(kSave, host, first_pages(8));
        ASSERT_TRUE(save.wait(60.0));
        ASSERT_EQ(save.error(), std::nullopt);
        ASSERT_TRUE(pools.device_record(7) == pools.host_record(host[7]));
    }
    EXPECT_EQ(memory.registered().pinned, memory.nbytes());
}

}  // namespace
}  // namespace hicache::testing_support
