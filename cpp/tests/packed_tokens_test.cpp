#include "core/packed_tokens.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/expect_error.h"

namespace hicache {
namespace {

constexpr int64_t kLow = std::numeric_limits<int32_t>::min();
constexpr int64_t kHigh = std::numeric_limits<int32_t>::max();

std::vector<std::byte> packed(const std::vector<int64_t>& tokens, int64_t width) {
    std::vector<std::byte> bytes(tokens.size() * static_cast<size_t>(width));
    if (width == 8) pack_wide(tokens, bytes.data());
    if (width == 4) {
        EXPECT_TRUE(pack_narrow(tokens, bytes.data()));
    }
    return bytes;
}

PackedTokens view(const std::vector<std::byte>& bytes, size_t tokens) {
    return {bytes, static_cast<int64_t>(tokens)};
}

TEST(PackedTokens, NarrowIsWhatFitsIntoInt32) {
    std::vector<std::byte> room(3000 * 4);
    EXPECT_TRUE(pack_narrow({}, room.data()));
    EXPECT_TRUE(pack_narrow(std::vector<int64_t>{kLow, 0, kHigh}, room.data()));
    for (const int64_t beyond : {kLow - 1, kHigh + 1}) {
        for (const size_t at : {size_t{0}, size_t{1023}, size_t{1024}, size_t{2999}}) {
            std::vector<int64_t> tokens(3000, 5);
            tokens[at] = beyond;
            EXPECT_FALSE(pack_narrow(tokens, room.data()));
        }
    }
}

TEST(PackedTokens, BothWidthsHoldTheSameTokensWithTheSameHash) {
    const std::vector<int64_t> tokens{kLow, -1, 0, 1, kHigh, 77, 5};
    for (const int64_t width : {4, 8}) {
        const auto bytes = packed(tokens, width);
        const PackedTokens run = view(bytes, tokens.size());
        EXPECT_EQ(run.width(), width);
        std::vector<int64_t> out(tokens.size());
        run.unpack(out.data());
        EXPECT_EQ(out, tokens);
        for (size_t n = 0; n <= tokens.size(); ++n)
            EXPECT_EQ(run.hash(static_cast<int64_t>(n)), token_hash(std::span(tokens).first(n)));
    }
}

// At, before and behind the borders of the blocks that are compared at once.
TEST(PackedTokens, TheCommonPrefixEndsAtTheFirstDifference) {
    for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{200}}) {
        std::vector<int64_t> tokens(size);
        for (size_t i = 0; i < size; ++i)
            tokens[i] = static_cast<int64_t>(i * 977);
        for (const int64_t width : {4, 8}) {
            const auto bytes = packed(tokens, width);
            const PackedTokens run = view(bytes, size);
            EXPECT_EQ(run.common_prefix(tokens), static_cast<int64_t>(size));
            EXPECT_EQ(run.common_prefix({}), 0);
            for (size_t at = 0; at < size; ++at) {
                EXPECT_EQ(run.common_prefix(std::span(tokens).first(at)), static_cast<int64_t>(at));
                auto other = tokens;
                other[at] += int64_t{1} << 32;  // equal in the low 32 bits
                EXPECT_EQ(run.common_prefix(other), static_cast<int64_t>(at));
                other.resize(size + 9);
                EXPECT_EQ(run.common_prefix(other), static_cast<int64_t>(at));
            }
        }
    }
}

TEST(PackedTokens, OtherNumbersOfBytesAreRefused) {
    const std::vector<std::byte> bytes(12);
    EXPECT_EQ(view(bytes, 3).width(), 4);
    EXPECT_ERROR(view(bytes, 2), std::invalid_argument, "12 bytes are not 2 tokens");
    EXPECT_THROW((PackedTokens{bytes, -3}), std::invalid_argument);
}

}  // namespace
}  // namespace hicache
