#include "core/bit_tree.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace hicache {
namespace {

TEST(BitTree, EmptySetHasNoMembers) {
    for (const int64_t size : {0, 1, 63, 64, 65, 5000}) {
        const BitTree tree(size);
        EXPECT_EQ(tree.largest(), -1);
        EXPECT_EQ(tree.first_from(0), -1);
        EXPECT_EQ(tree.first_from(size + 100), -1);
    }
}

class BitTreeAgainstSet : public testing::TestWithParam<int64_t> {};

TEST_P(BitTreeAgainstSet, AnswersAsTheSetDoes) {
    const int64_t size = GetParam();
    std::mt19937_64 random(7);
    BitTree tree(size);
    std::set<int64_t> model;
    for (int step = 0; step < 5000; ++step) {
        const auto i = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
        if (random() % 2 == 0) {
            tree.insert(i);
            model.insert(i);
        } else {
            tree.erase(i);
            model.erase(i);
        }
        const auto from = static_cast<int64_t>(random() % static_cast<uint64_t>(size));
        const auto next = model.lower_bound(from);
        ASSERT_EQ(tree.first_from(from), next == model.end() ? -1 : *next);
        ASSERT_EQ(tree.largest(), model.empty() ? -1 : *model.rbegin());
        ASSERT_EQ(tree.contains(i), model.contains(i));
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, BitTreeAgainstSet,
                         testing::Values(1, 63, 64, 65, 4096, 4097, 300000));

}  // namespace
}  // namespace hicache
