#include "core/page_allocator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <random>
#include <set>
#include <stdexcept>

#include "tests/expect_error.h"

namespace hicache {
namespace {

using Pages = std::vector<int64_t>;

// What an allocator must answer, computed the slow way.
class NaiveAllocator {
  public:
    NaiveAllocator(int64_t num_pages, const Pages& reserved) {
        for (int64_t page = 0; page < num_pages; ++page)
            free_.insert(page);
        for (const int64_t page : reserved)
            free_.erase(page);
    }

    std::vector<int64_t> extent_lengths() const {
        std::vector<int64_t> lengths;
        int64_t previous = -2;
        for (const int64_t page : free_) {
            if (page != previous + 1) lengths.push_back(0);
            ++lengths.back();
            previous = page;
        }
        std::sort(lengths.rbegin(), lengths.rend());
        return lengths;
    }

    // The fewest runs that n free pages can be taken from.
    int64_t fewest_runs(int64_t n) const {
        int64_t runs = 0;
        for (const int64_t length : extent_lengths()) {
            if (n <= 0) break;
            n -= length;
            ++runs;
        }
        return runs;
    }

    std::set<int64_t> free_;
};

int64_t runs_of(const Pages& pages) {
    int64_t runs = pages.empty() ? 0 : 1;
    for (size_t i = 1; i < pages.size(); ++i)
        runs += pages[i] != pages[i - 1] + 1;
    return runs;
}

TEST(PageAllocator, StartsWithEverythingButReservedFree) {
    const PageAllocator pages(10, Pages{0, 5});
    EXPECT_EQ(pages.total_pages(), 8);
    EXPECT_EQ(pages.free_pages(), 8);
    EXPECT_EQ(pages.num_extents(), 2);
    EXPECT_EQ(pages.largest_extent(), 4);
    pages.check();
}

TEST(PageAllocator, EmptyPool) {
    PageAllocator pages(0, {});
    EXPECT_EQ(pages.allocate(0)->size(), 0u);
    EXPECT_FALSE(pages.allocate(1));
    EXPECT_EQ(pages.largest_extent(), 0);
    pages.check();
}

TEST(PageAllocator, RejectsBadPools) {
    EXPECT_ERROR(PageAllocator(-1, {}), std::invalid_argument, "num_pages is -1");
    EXPECT_ERROR(PageAllocator(int64_t{1} << 40, {}), std::invalid_argument, "1099511627776");
    EXPECT_ERROR(PageAllocator(4, Pages{4}), std::invalid_argument, "Reserved page 4");
    EXPECT_ERROR(PageAllocator(4, Pages{1, 1}), std::invalid_argument, "twice");
}

TEST(PageAllocator, TakesTheSmallestExtentThatFits) {
    PageAllocator pages(100, Pages{10, 50, 54});  // extents of 10, 39, 3 and 45
    EXPECT_EQ(*pages.allocate(3), (Pages{51, 52, 53}));
    EXPECT_EQ(pages.allocate(8)->front(), 2);
    EXPECT_EQ(pages.allocate(39)->front(), 11);
}

TEST(PageAllocator, TakesTheUpperEnd) {
    PageAllocator pages(100, {});
    EXPECT_EQ(*pages.allocate(3), (Pages{97, 98, 99}));
    EXPECT_EQ(*pages.allocate(2), (Pages{95, 96}));
    EXPECT_EQ(pages.num_extents(), 1);
    EXPECT_EQ(pages.largest_extent(), 95);
    pages.check();
}

TEST(PageAllocator, TakesTheLargestExtentsWhereNoneIsLongEnough) {
    PageAllocator pages(30, Pages{2, 10, 25});  // extents of 2, 7, 14 and 4
    EXPECT_EQ(runs_of(*pages.allocate(20)), 2);
    EXPECT_EQ(pages.num_extents(), 3);  // 2, 1 and 4
    EXPECT_EQ(*pages.allocate(4), (Pages{26, 27, 28, 29}));
    EXPECT_EQ(*pages.allocate(3), (Pages{0, 1, 3}));
    pages.check();
}

// A full pool whose prefixes go oldest first, each from its tail, is handed out without a break.
TEST(PageAllocator, AFullPoolGoesRoundLikeARing) {
    PageAllocator pages(1000, {});
    std::deque<Pages> prefixes;
    const auto save = [&](int64_t n) {
        prefixes.push_back(*pages.allocate(n));
        return runs_of(prefixes.back());
    };
    for (const int64_t n : {170, 90, 240, 60, 310, 130})
        EXPECT_EQ(save(n), 1);
    EXPECT_EQ(pages.free_pages(), 0);
    for (const int64_t n : {120, 80, 200, 50, 250, 100, 200}) {
        for (int64_t missing = n; missing > 0;) {
            Pages& oldest = prefixes.front();
            const auto part = std::min<int64_t>(missing, static_cast<int64_t>(oldest.size()));
            pages.free(std::span(oldest).last(static_cast<size_t>(part)));
            oldest.resize(oldest.size() - static_cast<size_t>(part));
            missing -= part;
            if (oldest.empty()) prefixes.pop_front();
        }
        EXPECT_EQ(save(n), 1);
    }
    pages.check();
}

TEST(PageAllocator, TooManyIsNoneAndChangesNothing) {
    PageAllocator pages(8, Pages{3});
    EXPECT_FALSE(pages.allocate(8));
    EXPECT_EQ(pages.free_pages(), 7);
    EXPECT_EQ(pages.allocate(7)->size(), 7u);
    EXPECT_FALSE(pages.allocate(1));
    EXPECT_ERROR(pages.allocate(-1), std::invalid_argument, "-1");
}

TEST(PageAllocator, F39BadFreesNameThePageAndChangeNothing) {
    PageAllocator pages(16, Pages{0});
    const Pages mine = *pages.allocate(4);
    const auto expect_rejected = [&](Pages list, const char* text) {
        EXPECT_ERROR(pages.free(list), std::invalid_argument, text);
        EXPECT_EQ(pages.free_pages(), 11);
        EXPECT_TRUE(pages.is_allocated(mine));
        pages.check();
    };
    expect_rejected({mine[0], mine[1], mine[0]}, "in the list twice");
    expect_rejected({mine[0], 16}, "page 16");
    expect_rejected({mine[0], -1}, "page -1");
    expect_rejected({mine[0], int64_t{1} << 33}, "page 8589934592");
    expect_rejected({mine[0], 0}, "reserved");
    expect_rejected({mine[0], 1}, "never allocated");
    pages.free(mine);
    EXPECT_ERROR(pages.free(mine), std::invalid_argument, "free already");
    EXPECT_EQ(pages.free_pages(), 15);
    EXPECT_EQ(pages.num_extents(), 1);
}

TEST(PageAllocator, IsAllocatedNeedsAllOfThem) {
    PageAllocator pages(4, Pages{0});
    const Pages mine = *pages.allocate(2);
    EXPECT_TRUE(pages.is_allocated(mine));
    EXPECT_TRUE(pages.is_allocated({}));
    EXPECT_FALSE(pages.is_allocated(Pages{mine[0], 1}));
    EXPECT_FALSE(pages.is_allocated(Pages{0}));
    EXPECT_FALSE(pages.is_allocated(Pages{4}));
    EXPECT_FALSE(pages.is_allocated(Pages{-1}));
}

TEST(PageAllocator, GrowsFromItsFirstPageOn) {
    PageAllocator pages(10, Pages{0, 5, 6}, 3);
    EXPECT_EQ(pages.num_pages(), 10);
    EXPECT_EQ(pages.total_pages(), 2);
    const auto first = pages.allocate(2);
    EXPECT_EQ(*first, (Pages{1, 2}));
    EXPECT_FALSE(pages.allocate(1));
    EXPECT_ERROR(pages.free(Pages{3}), std::invalid_argument, "the pool has pages 0 to 2");
    EXPECT_FALSE(pages.is_allocated(Pages{3}));
    pages.check();
    pages.grow(2);  // less than there is
    EXPECT_EQ(pages.total_pages(), 2);
    pages.grow(6);
    EXPECT_EQ(pages.total_pages(), 4);
    pages.check();
    pages.free(Pages{2});
    EXPECT_EQ(pages.largest_extent(), 3);  // 2, 3 and 4: joined over the old border
    pages.grow(10);
    EXPECT_EQ(pages.total_pages(), 7);
    EXPECT_EQ(*pages.allocate(3), (Pages{7, 8, 9}));
    EXPECT_ERROR(pages.grow(11), std::invalid_argument, "Cannot grow to 11 pages");
    EXPECT_ERROR(PageAllocator(4, Pages{}, -1), std::invalid_argument, "ready is -1");
    EXPECT_ERROR(PageAllocator(4, Pages{}, 5), std::invalid_argument, "Cannot grow to 5");
    pages.check();
}

class PageAllocatorRandom : public testing::TestWithParam<int> {};

TEST_P(PageAllocatorRandom, AgreesWithTheNaiveModel) {
    std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
    const auto num_pages = static_cast<int64_t>(random() % 300 + 1);
    Pages reserved;
    for (int64_t page = 0; page < num_pages; ++page) {
        if (random() % 20 == 0) reserved.push_back(page);
    }
    PageAllocator pages(num_pages, reserved);
    NaiveAllocator model(num_pages, reserved);
    Pages held;
    for (int step = 0; step < 600; ++step) {
        if (random() % 2 == 0) {
            const auto n = static_cast<int64_t>(random() % 24);
            const int64_t fewest = model.fewest_runs(n);
            const auto got = pages.allocate(n);
            ASSERT_EQ(got.has_value(), n <= static_cast<int64_t>(model.free_.size()));
            if (got) {
                ASSERT_EQ(static_cast<int64_t>(got->size()), n);
                ASSERT_TRUE(std::is_sorted(got->begin(), got->end()));
                ASSERT_LE(runs_of(*got), fewest);
                for (const int64_t page : *got)
                    ASSERT_EQ(model.free_.erase(page), 1u);
                held.insert(held.end(), got->begin(), got->end());
            }
        } else {
            std::shuffle(held.begin(), held.end(), random);
            const size_t n = std::min<size_t>(held.size(), random() % 24);
            Pages back(held.end() - static_cast<ptrdiff_t>(n), held.end());
            if (random() % 2 == 0) std::sort(back.begin(), back.end());
            held.resize(held.size() - n);
            pages.free(back);
            model.free_.insert(back.begin(), back.end());
        }
        pages.check();
        const auto lengths = model.extent_lengths();
        ASSERT_EQ(pages.free_pages(), static_cast<int64_t>(model.free_.size()));
        ASSERT_EQ(pages.num_extents(), static_cast<int64_t>(lengths.size()));
        ASSERT_EQ(pages.largest_extent(), lengths.empty() ? 0 : lengths.front());
        ASSERT_TRUE(pages.is_allocated(held));
    }
}

INSTANTIATE_TEST_SUITE_P(Seeds, PageAllocatorRandom, testing::Range(0, 20));

}  // namespace
}  // namespace hicache
