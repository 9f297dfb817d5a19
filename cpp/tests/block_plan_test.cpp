#include "transfer/block_plan.h"

#include <gtest/gtest.h>

namespace hicache {
namespace {

using Blocks = std::vector<Block>;

Blocks blocks_of(const Segment& segment, PageRun run) {
    Blocks blocks;
    append_blocks(segment, run, blocks);
    return blocks;
}

TEST(BlockPlan, NeighboursOnBothSidesAreOneBlock) {
    const Segment segment{100, 40, {1000, 40, 4, 10, 10}};
    EXPECT_EQ(blocks_of(segment, {2, 3, 5}), (Blocks{{180, 1120, 200, 1, 0, 0}}));
}

TEST(BlockPlan, PagesAtADistanceAreRowsOfOneBlock) {
    const Segment segment{100, 90, {1000, 64, 4, 10, 10}};
    EXPECT_EQ(blocks_of(segment, {2, 3, 5}), (Blocks{{280, 1192, 40, 5, 90, 64}}));
    EXPECT_EQ(blocks_of(segment, {2, 3, 1}), (Blocks{{280, 1192, 40, 1, 90, 64}}));
}

TEST(BlockPlan, StridedRowsAreOneBlockAPageOrARun) {
    const Segment apart{0, 90, {1000, 64, 4, 10, 16}};
    EXPECT_EQ(blocks_of(apart, {0, 0, 2}),
              (Blocks{{0, 1000, 10, 4, 10, 16}, {90, 1064, 10, 4, 10, 16}}));
    const Segment dense{0, 40, {1000, 64, 4, 10, 16}};
    EXPECT_EQ(blocks_of(dense, {1, 1, 2}), (Blocks{{40, 1064, 10, 8, 10, 16}}));
}

TEST(BlockPlan, PitchesThatNoCopyEngineTakesGoRowByRow) {
    const Segment backwards{0, 90, {1000, -64, 1, 40, 40}};
    EXPECT_EQ(blocks_of(backwards, {0, 1, 2}),
              (Blocks{{0, 936, 40, 1, 0, 0}, {90, 872, 40, 1, 0, 0}}));
    const Segment far{0, kLargestPitch + 1, {1000, 64, 1, 40, 40}};
    EXPECT_EQ(blocks_of(far, {0, 0, 2}).size(), 2u);
}

TEST(BlockPlan, OffsetsAreSixtyFourBits) {
    const Segment segment{0, 3'000'000, {1'000, 42'000, 1, 42'000, 42'000}};
    const Blocks blocks = blocks_of(segment, {3'000, 200'000, 1});
    EXPECT_EQ(blocks[0].host, 9'000'000'000);
    EXPECT_EQ(blocks[0].device, 8'400'001'000u);
}

TEST(BlockPlan, CutsLieOnChunksAndCoverTheSameBytes) {
    const Blocks whole{{10, 5000, 300, 1, 0, 0}, {50, 9000, 30, 9, 45, 64}};
    const Blocks cut = cut_at_chunks(whole, 100);
    int64_t bytes = 0;
    for (const Block& block : cut) {
        const int64_t last = block.host + (block.rows - 1) * block.host_pitch + block.width - 1;
        EXPECT_EQ(block.host / 100, last / 100);
        bytes += block.bytes();
    }
    EXPECT_EQ(bytes, 300 + 270);
    EXPECT_EQ(cut[0], (Block{10, 5000, 90, 1, 0, 0}));
    EXPECT_EQ(cut[1], (Block{100, 5090, 100, 1, 0, 0}));
    EXPECT_EQ(cut_at_chunks(whole, 1 << 20), whole);
}

const PoolFormat kFormat(4, 3, {{"latent", 40, {0, 1, 2}}, {"index_k", 8, {0, 1, 2}}});

TEST(RecordParts, LayersAtEqualDistancesAreOnePart) {
    const HostLayout layout(kFormat, "page_first", 6);
    std::vector<DeviceBuffer> buffers;
    for (uint64_t layer = 0; layer < 3; ++layer)
        buffers.push_back({1000 + layer * 400, 40, 1, 40, 40});
    for (uint64_t layer = 0; layer < 3; ++layer)
        buffers.push_back({9000 + layer * 80, 8, 1, 8, 8});
    const CopyGeometry geometry(layout, 10, buffers);
    ASSERT_EQ(geometry.record().size(), 2u);
    EXPECT_EQ(geometry.record()[0], (RecordPart{0, 144, 1000, 40, 40, 3, 48, 400}));
    EXPECT_EQ(geometry.record()[1], (RecordPart{40, 144, 9000, 8, 8, 3, 48, 80}));
    Blocks blocks;
    append_blocks(geometry.record()[0], {1, 2, 1}, blocks);
    EXPECT_EQ(blocks, (Blocks{{144, 1080, 40, 3, 48, 400}}));
    EXPECT_TRUE(CopyGeometry(HostLayout(kFormat, "layer_first", 6), 10, buffers).record().empty());
}

TEST(RecordParts, ARecordThatIsContiguousOnBothSidesIsOneBlock) {
    const HostLayout layout(kFormat, "page_first", 6);
    std::vector<DeviceBuffer> buffers;
    for (const int64_t start : {0, 40}) {
        const int64_t bytes = start == 0 ? 40 : 8;
        for (int layer = 0; layer < 3; ++layer) {
            const auto address = static_cast<uint64_t>(1000 + layer * 48 + start);
            buffers.push_back({address, 144, 1, bytes, bytes});
        }
    }
    const CopyGeometry geometry(layout, 10, buffers);
    ASSERT_EQ(geometry.record().size(), 1u);
    EXPECT_EQ(geometry.record()[0].width, 144);
    Blocks blocks;
    append_blocks(geometry.record()[0], {1, 2, 3}, blocks);
    EXPECT_EQ(blocks, (Blocks{{144, 1288, 432, 1, 0, 0}}));
}

}  // namespace
}  // namespace hicache
