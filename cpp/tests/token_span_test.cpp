#include "core/token_span.h"

#include <gtest/gtest.h>

#include <random>
#include <stdexcept>
#include <unordered_set>
#include <vector>

#include "tests/expect_error.h"

namespace hicache {
namespace {

TokenSpan span_of(std::vector<int64_t> tokens) {
    auto owner = std::make_shared<std::vector<int64_t>>(std::move(tokens));
    const std::span<const int64_t> view(*owner);
    return {view, std::move(owner)};
}

TEST(TokenSpan, SlicesShareTheBufferAndCopiesDoNot) {
    const TokenSpan all = span_of({0, 1, 2, 3, 4, 5, 6, 7});
    const TokenSpan part = all.slice(2, 5);
    EXPECT_EQ(part.tokens().data(), all.tokens().data() + 2);
    EXPECT_EQ(part.buffer_tokens(), 8);
    const TokenSpan own = part.copy();
    EXPECT_NE(own.tokens().data(), part.tokens().data());
    EXPECT_EQ(own.buffer_tokens(), 3);
    EXPECT_EQ(own, part);
    EXPECT_EQ(span_of({}).copy().size(), 0);
}

TEST(TokenSpan, TheBufferLivesAsLongAsASlice) {
    auto owner = std::make_shared<std::vector<int64_t>>(std::vector<int64_t>{1, 2, 3});
    const std::weak_ptr<std::vector<int64_t>> watched = owner;
    {
        const std::span<const int64_t> view(*owner);
        const TokenSpan part = TokenSpan(view, std::move(owner)).slice(1, 2);
        EXPECT_FALSE(watched.expired());
        EXPECT_EQ(part.tokens()[0], 2);
    }
    EXPECT_TRUE(watched.expired());
}

TEST(TokenSpan, RejectsSlicesOutOfRange) {
    const TokenSpan span = span_of({1, 2, 3});
    for (const auto& [begin, end] : {std::pair{-1, 2}, {2, 1}, {0, 4}}) {
        EXPECT_ERROR(span.slice(begin, end), std::invalid_argument, "out of 3 tokens");
    }
    EXPECT_ERROR(span.common_prefix({}, 4), std::invalid_argument, "Offset 4");
    EXPECT_ERROR(span.common_prefix({}, -1), std::invalid_argument, "Offset -1");
}

TEST(TokenSpan, CommonPrefixOfEveryLength) {
    const size_t size = 1300;
    std::vector<int64_t> tokens(size);
    for (size_t i = 0; i < size; ++i)
        tokens[i] = static_cast<int64_t>(i * 7919);
    const TokenSpan span = span_of(tokens);
    for (size_t equal = 0; equal < size; equal += equal < 40 ? 1 : 97) {
        auto other = tokens;
        other[equal] ^= int64_t{1} << 40;  // differs in a high byte only
        EXPECT_EQ(span.common_prefix(other), static_cast<int64_t>(equal));
        const auto shorter = std::span(tokens).first(equal);
        EXPECT_EQ(span.common_prefix(std::vector(shorter.begin(), shorter.end())),
                  static_cast<int64_t>(equal));
    }
    EXPECT_EQ(span.common_prefix(tokens), static_cast<int64_t>(size));
    EXPECT_EQ(span.common_prefix(std::span(tokens).subspan(5), 5), static_cast<int64_t>(size - 5));
    EXPECT_EQ(span.common_prefix(tokens, 1), 0);
    EXPECT_EQ(span.common_prefix(tokens, static_cast<int64_t>(size)), 0);
}

TEST(TokenSpan, HashFollowsContent) {
    const TokenSpan a = span_of({1, 2, 3, 4, 5});
    EXPECT_EQ(a.hash(), a.copy().hash());
    EXPECT_EQ(a.slice(1, 3).hash(), span_of({2, 3}).hash());
    EXPECT_FALSE(a == span_of({1, 2, 3, 4, 6}));
    EXPECT_FALSE(a == span_of({1, 2, 3, 4}));
    std::unordered_set<uint64_t> seen;
    std::mt19937_64 random(3);
    int added = 0;
    for (int n = 0; n < 70; ++n) {
        for (int bit = 0; bit < 64; ++bit) {
            std::vector<int64_t> tokens(static_cast<size_t>(n), 17);
            if (n > 0) {
                tokens[random() % static_cast<size_t>(n)] ^=
                    static_cast<int64_t>(uint64_t{1} << bit);
            }
            seen.insert(span_of(tokens).hash());
            ++added;
        }
    }
    EXPECT_GT(seen.size(), static_cast<size_t>(added) * 9 / 10 - 600);
    EXPECT_NE(span_of({0}).hash(), span_of({0, 0}).hash());
    EXPECT_NE(span_of({1, 2}).hash(), span_of({2, 1}).hash());
}

}  // namespace
}  // namespace hicache
