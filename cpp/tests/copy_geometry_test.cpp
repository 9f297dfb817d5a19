#include "transfer/copy_geometry.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/expect_error.h"

namespace hicache {
namespace {

const PoolFormat kFormat(4, 2, {{"latent", 40, {0, 1}}, {"index_k", 8, {1}}});

TEST(CopyGeometry, SeparateBuffersAreSeparateSegments) {
    const HostLayout layout(kFormat, "page_first", 6);
    const CopyGeometry geometry(layout, 5,
                                {{1000, 40, 1, 40, 40}, {2000, 40, 4, 10, 10}, {3000, 8, 1, 8, 8}});
    ASSERT_EQ(geometry.segments(0).size(), 1u);
    ASSERT_EQ(geometry.segments(1).size(), 2u);
    EXPECT_EQ(geometry.segments(1)[1].host_base, 80);
    EXPECT_EQ(geometry.segments(1)[1].host_stride, 88);
    EXPECT_FALSE(geometry.segments(0)[0].contiguous());
}

TEST(CopyGeometry, PackedDevicePagesAreOneSegmentALayer) {
    const HostLayout layout(kFormat, "layer_first", 6);
    // Device memory [layer][page][latent | index_k], as the host has it.
    const CopyGeometry geometry(
        layout, 5, {{1000, 40, 1, 40, 40}, {2000, 48, 4, 10, 10}, {2040, 48, 1, 8, 8}});
    ASSERT_EQ(geometry.segments(1).size(), 1u);
    EXPECT_EQ(geometry.segments(1)[0].page_bytes(), 48);
    EXPECT_TRUE(geometry.segments(0)[0].contiguous());
    EXPECT_TRUE(geometry.segments(1)[0].contiguous());
}

TEST(CopyGeometry, NeighboursInPageZeroAloneAreNotFused) {
    const HostLayout layout(kFormat, "page_first", 6);
    const CopyGeometry geometry(layout, 1,
                                {{1000, 40, 1, 40, 40}, {2000, 40, 4, 10, 10}, {2040, 8, 1, 8, 8}});
    EXPECT_EQ(geometry.segments(1).size(), 2u);
}

TEST(CopyGeometry, F07RowsThatDifferFromTheFormatAreRejected) {
    const HostLayout layout(kFormat, "layer_first", 6);
    EXPECT_ERROR(
        CopyGeometry(layout, 5, {{1000, 36, 4, 9, 9}, {1, 40, 1, 40, 40}, {1, 8, 1, 8, 8}}),
        std::invalid_argument, "4 rows of 9 = 36 bytes, the format says 40");
    EXPECT_ERROR(CopyGeometry(layout, 5, {{1000, 40, 1, 40, 40}}), std::invalid_argument,
                 "3 device buffers");
    EXPECT_ERROR(CopyGeometry(layout, -1, {}), std::invalid_argument, "device_pages is -1");
}

TEST(DeviceBuffer, PagesMustNotOverlap) {
    const auto overlaps = [](DeviceBuffer buffer, int64_t pages) {
        try {
            buffer.check_pages(pages);
            return false;
        } catch (const std::invalid_argument&) {
            return true;
        }
    };
    EXPECT_FALSE(overlaps({1, 40, 4, 10, 10}, 5));   // packed
    EXPECT_FALSE(overlaps({1, 10, 4, 10, 50}, 5));   // [row][page]
    EXPECT_FALSE(overlaps({1, -40, 4, 10, 10}, 5));  // backwards
    EXPECT_FALSE(overlaps({1, 64, 4, 10, 16}, 5));   // padded rows and pages
    EXPECT_FALSE(overlaps({1, 58, 4, 10, 16}, 5));   // the last row may end early
    EXPECT_FALSE(overlaps({1, 0, 4, 10, 10}, 1));    // one page has no stride
    EXPECT_TRUE(overlaps({1, 57, 4, 10, 16}, 5));
    EXPECT_TRUE(overlaps({1, 0, 4, 10, 10}, 2));
    EXPECT_TRUE(overlaps({1, 40, 4, 10, 9}, 5));
    EXPECT_TRUE(overlaps({1, 40, 4, 10, 0}, 1));
    EXPECT_TRUE(overlaps({1, 10, 4, 10, 40}, 5));
    EXPECT_TRUE(overlaps({1, 39, 1, 40, 40}, 2));
}

TEST(DeviceBuffer, ShapeMustMakeSense) {
    EXPECT_ERROR((DeviceBuffer{1, 1, 0, 1, 1}.check_shape()), std::invalid_argument, "0 rows");
    EXPECT_ERROR((DeviceBuffer{1, 1, 1, -5, 1}.check_shape()), std::invalid_argument, "-5 bytes");
    EXPECT_ERROR((DeviceBuffer{0, 1, 1, 1, 1}.check_pages(3)), std::invalid_argument,
                 "3 pages at address 0");
    DeviceBuffer{0, 1, 1, 1, 1}.check_pages(0);  // an empty tensor may have no address
    EXPECT_ERROR((DeviceBuffer{1, 1, int64_t{1} << 40, int64_t{1} << 40, 1}.check_shape()),
                 std::invalid_argument, "2^62");
}

TEST(CopyGeometry, RecordsOfLayersInOtherAllocationsCanBeLeftOut) {
    const PoolFormat format(4, 2, {{"kv", 40, {0, 1}}});
    const CopyGeometry geometry(HostLayout(format, "page_first", 6), 5,
                                {{1000, 40, 1, 40, 40}, {5000, 40, 1, 40, 40}});
    ASSERT_EQ(geometry.record().size(), 1u);
    const auto until = [&](uint64_t end) {
        return geometry.records_within(
            [&](uint64_t first, uint64_t last) { return first >= 1000 && last < end; });
    };
    EXPECT_TRUE(until(5000 + 5 * 40));
    EXPECT_FALSE(until(5000 + 5 * 40 - 1));
    const CopyGeometry without = geometry.without_records();
    EXPECT_TRUE(without.record().empty());
    EXPECT_EQ(without.segments(1).size(), 1u);
}

TEST(CopyGeometry, EntriesTellWhereALayerLiesInTheHostPool) {
    for (const char* name : {"page_first", "layer_first"}) {
        const HostLayout layout(kFormat, name, 6);
        const CopyGeometry geometry(
            layout, 5, {{1000, 40, 1, 40, 40}, {2000, 40, 4, 10, 10}, {3000, 8, 1, 8, 8}});
        EXPECT_EQ(geometry.entry(1).base, layout.base(0, 1));
        EXPECT_EQ(geometry.entry(1).stride, layout.page_stride(1));
        EXPECT_EQ(geometry.entry(1).bytes, 48);
        EXPECT_EQ(geometry.entry(1).in_record, 40);
    }
}

}  // namespace
}  // namespace hicache
