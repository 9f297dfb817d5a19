#include "transfer/copy_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <utility>

namespace hicache {
namespace {

using Pages = std::vector<int64_t>;
using Pairs = std::multiset<std::pair<int64_t, int64_t>>;

void add_run(Pairs& pairs, PageRun run) {
    for (int64_t i = 0; i < run.count; ++i) {
        pairs.emplace(run.host_page + i, run.device_page + i);
    }
}

TEST(CopyPlan, MergesNeighboursOnBothSides) {
    const CopyPlan plan(Pages{5, 3, 4, 9, 10}, Pages{8, 6, 7, 1, 3});
    EXPECT_EQ(plan.runs(), (std::vector<PageRun>{{3, 6, 3}, {9, 1, 1}, {10, 3, 1}}));
    EXPECT_EQ(plan.num_pages(), 5);
}

TEST(CopyPlan, NothingIsNoRun) {
    const CopyPlan plan(Pages{}, Pages{});
    EXPECT_EQ(plan.num_pages(), 0);
    plan.visit_pages(0, 0, [](PageRun) { FAIL(); });
}

TEST(CopyPlan, F52NeighbouringTokensAreOneRun) {
    Pages host(4096), device(4096);
    std::iota(host.begin(), host.end(), 100);
    std::iota(device.begin(), device.end(), 7);
    EXPECT_EQ(CopyPlan(host, device).runs().size(), 1u);
}

class CopyPlanRandom : public testing::TestWithParam<int> {};

TEST_P(CopyPlanRandom, CoversEachPairOnceWhateverTheOrder) {
    std::mt19937_64 random(static_cast<uint64_t>(GetParam()));
    Pages host(random() % 200 + 1), device(400);
    // Sources may repeat: the host side of a load.
    for (auto& page : host)
        page = static_cast<int64_t>(random() % 50);
    std::iota(device.begin(), device.end(), 0);
    if (GetParam() % 3 != 0) std::shuffle(device.begin(), device.end(), random);
    if (GetParam() % 3 == 0) std::sort(host.begin(), host.end());
    device.resize(host.size());

    Pairs expected;
    for (size_t i = 0; i < host.size(); ++i)
        expected.emplace(host[i], device[i]);
    const CopyPlan plan(host, device);
    Pairs covered;
    for (const PageRun& run : plan.runs())
        add_run(covered, run);
    EXPECT_EQ(covered, expected);
    for (size_t i = 1; i < plan.runs().size(); ++i) {  // no two runs could be one
        const PageRun& a = plan.runs()[i - 1];
        const PageRun& b = plan.runs()[i];
        EXPECT_FALSE(a.host_page + a.count == b.host_page &&
                     a.device_page + a.count == b.device_page);
    }

    std::vector<size_t> order(host.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), random);
    Pages host2, device2;
    for (const size_t i : order) {
        host2.push_back(host[i]);
        device2.push_back(device[i]);
    }
    EXPECT_EQ(CopyPlan(host2, device2).runs(), plan.runs());

    Pairs pieces;
    const auto step = static_cast<int64_t>(random() % 7 + 1);
    for (int64_t at = 0; at < plan.num_pages(); at += step) {
        plan.visit_pages(at, std::min(at + step, plan.num_pages()),
                         [&](PageRun run) { add_run(pieces, run); });
    }
    EXPECT_EQ(pieces, expected);
}

INSTANTIATE_TEST_SUITE_P(Seeds, CopyPlanRandom, testing::Range(0, 30));

// Host pages that differ in one digit, in all of them, or in none, far up in a large pool.
TEST(CopyPlan, IsSortedByHostAndThenByDevicePage) {
    std::mt19937_64 random(1);
    constexpr int64_t kPool = int64_t{1} << 33;
    for (const int64_t range : {int64_t{1}, int64_t{2}, int64_t{255}, int64_t{256}, int64_t{257},
                                int64_t{65'537}, int64_t{1} << 24, kPool}) {
        for (const size_t count : {size_t{2}, size_t{64}, size_t{65}, size_t{2000}}) {
            Pages host(count), device(count);
            for (auto& page : host)
                page = kPool - 1 - static_cast<int64_t>(random() % static_cast<uint64_t>(range));
            std::iota(device.begin(), device.end(), 0);
            std::shuffle(device.begin(), device.end(), random);
            std::vector<std::pair<int64_t, int64_t>> expected;
            for (size_t i = 0; i < count; ++i)
                expected.emplace_back(host[i], device[i]);
            std::sort(expected.begin(), expected.end());
            std::vector<std::pair<int64_t, int64_t>> planned;
            const CopyPlan plan(host, device);
            for (const PageRun& run : plan.runs()) {
                for (int64_t i = 0; i < run.count; ++i)
                    planned.emplace_back(run.host_page + i, run.device_page + i);
            }
            EXPECT_EQ(planned, expected) << count << " pages of " << range;
        }
    }
}

}  // namespace
}  // namespace hicache
