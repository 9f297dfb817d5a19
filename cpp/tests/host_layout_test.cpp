#include "core/host_layout.h"

#include <gtest/gtest.h>

#include <numeric>
#include <stdexcept>
#include <vector>

#include "tests/expect_error.h"

namespace hicache {
namespace {

const char* const kLayouts[] = {"layer_first", "page_first", "page_first_direct"};

PoolFormat small_format() {
    return {4, 3, {{"latent", 10, {0, 1, 2}}, {"index_k", 3, {0, 2}}}};
}

TEST(HostLayout, PagesTileThePool) {
    for (const char* name : kLayouts) {
        const HostLayout layout(small_format(), name, 5);
        std::vector<int> uses(static_cast<size_t>(layout.total_bytes()), 0);
        const auto& buffers = layout.format().buffers();
        for (int b = 0; b < 2; ++b) {
            for (const int layer : buffers[b].layers) {
                for (int64_t page = 0; page < 5; ++page) {
                    const int64_t at = layout.offset(b, layer, page);
                    for (int64_t i = 0; i < buffers[b].page_bytes; ++i)
                        ++uses[at + i];
                }
            }
        }
        for (const int count : uses)
            ASSERT_EQ(count, 1) << name;
        EXPECT_EQ(layout.name(), name);
    }
}

TEST(HostLayout, RecordsAreContiguousPageFirst) {
    const HostLayout layout(small_format(), "page_first", 5);
    EXPECT_EQ(layout.offset(0, 0, 2), 2 * 36);
    EXPECT_EQ(layout.offset(1, 0, 2), 2 * 36 + 10);
    EXPECT_EQ(layout.offset(0, 1, 2), 2 * 36 + 13);
    EXPECT_EQ(layout.offset(1, 2, 2), 2 * 36 + 33);
}

TEST(HostLayout, EntriesOfALayerAreContiguousLayerFirst) {
    const HostLayout layout(small_format(), "layer_first", 5);
    EXPECT_EQ(layout.offset(0, 0, 1), 13);
    EXPECT_EQ(layout.offset(0, 1, 1), 5 * 13 + 10);
    EXPECT_EQ(layout.offset(1, 2, 3), 5 * 23 + 3 * 13 + 10);
}

TEST(HostLayout, F06OffsetsBeyondFourGiB) {
    std::vector<int> all(61);
    std::iota(all.begin(), all.end(), 0);
    const PoolFormat token(1, 61, {{"latent", 656, all}});  // 40,016 B a token
    const HostLayout pages(token, "page_first", 110016);
    EXPECT_EQ(pages.offset(0, 0, 59968), 2399679488);
    EXPECT_EQ(pages.offset(0, 0, 107392), 4297398272);
    const HostLayout layers(token, "layer_first", 110016);
    EXPECT_EQ(layers.offset(0, 60, 0), 4330229760);
    const HostLayout vast(token, "page_first", int64_t{1} << 46);
    EXPECT_EQ(vast.offset(0, 1, (int64_t{1} << 46) - 1), ((int64_t{1} << 46) - 1) * 40016 + 656);
}

TEST(HostLayout, RejectsWhatIsOutOfRange) {
    EXPECT_ERROR(HostLayout(small_format(), "diagonal", 5), std::invalid_argument, "diagonal");
    EXPECT_ERROR(HostLayout(small_format(), "page_first", -1), std::invalid_argument, "-1");
    EXPECT_ERROR(HostLayout(small_format(), "page_first", int64_t{1} << 60), std::invalid_argument,
                 "2^62");
    const HostLayout layout(small_format(), "page_first", 5);
    EXPECT_ERROR(layout.offset(2, 0, 0), std::invalid_argument, "Buffer 2");
    EXPECT_ERROR(layout.offset(0, 3, 0), std::invalid_argument, "Layer 3");
    EXPECT_ERROR(layout.offset(0, 0, 5), std::invalid_argument, "Page 5");
    EXPECT_ERROR(layout.offset(0, 0, int64_t{1} << 32), std::invalid_argument, "Page 4294967296");
    EXPECT_ERROR(layout.offset(1, 1, 0), std::invalid_argument, "does not own");
}

}  // namespace
}  // namespace hicache
