#include "core/digest_table.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/expect_error.h"

namespace hicache {
namespace {

TEST(DigestTable, KnowsNothingUntilItIsUsed) {
    DigestTable table(4, 3);
    EXPECT_FALSE(table.in_use());
    EXPECT_EQ(table.get(3, 2), 0U);
    table.forget(3, 2);
    EXPECT_FALSE(table.in_use());
    table.use();
    EXPECT_TRUE(table.in_use());
    EXPECT_EQ(table.get(3, 2), 0U);
    table.set(3, 2, 7);
    table.set(0, 0, 8);
    table.use();
    EXPECT_EQ(table.get(3, 2), 7U);
    EXPECT_EQ(table.get(0, 0), 8U);
    table.forget(3, 2);
    EXPECT_EQ(table.get(3, 2), 0U);
}

TEST(DigestTable, LiesWhereItIsTold) {
    auto words = std::make_shared<std::vector<uint64_t>>(DigestTable::num_words(4, 3));
    const std::weak_ptr<std::vector<uint64_t>> watched = words;
    {
        DigestTable table(*words, 4, 3, words);
        EXPECT_TRUE(table.in_use());
        table.use();
        table.set(2, 1, 9);
        EXPECT_EQ((*words)[2 * 3 + 1], 9U);
        DigestTable again(*words, 4, 3, words);
        EXPECT_EQ(again.get(2, 1), 9U);
        words.reset();
        EXPECT_FALSE(watched.expired());
    }
    EXPECT_TRUE(watched.expired());
}

TEST(DigestTable, RefusesWhatDoesNotFit) {
    std::vector<uint64_t> words(12);
    EXPECT_ERROR(DigestTable(words, 4, 4, nullptr), std::invalid_argument, "takes 16 words");
    EXPECT_ERROR(DigestTable(-1, 4), std::invalid_argument, "-1 pages");
    const std::span<uint64_t> shifted(
        reinterpret_cast<uint64_t*>(reinterpret_cast<std::byte*>(words.data()) + 4), 3);
    EXPECT_ERROR(DigestTable(shifted, 3, 1, nullptr), std::invalid_argument, "multiple of 8");
    DigestTable table(4, 3);
    table.check_place(3, 2);
    EXPECT_ERROR(table.check_place(4, 0), std::invalid_argument, "page 4, layer 0");
    EXPECT_ERROR(table.check_place(0, 3), std::invalid_argument, "page 0, layer 3");
}

}  // namespace
}  // namespace hicache
