#include "core/page_keys.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

namespace hicache {
namespace {

// The key of the page with these tokens behind one with the key `above`.
uint64_t page_key(uint64_t above, std::span<const int64_t> tokens) {
    uint64_t key = 0;
    page_keys(tokens, static_cast<int64_t>(tokens.size()), above, {&key, 1});
    return key;
}

uint64_t namespace_of(std::string_view name) {
    return namespace_key(std::as_bytes(std::span(name)));
}

std::vector<int64_t> counting(size_t count, int64_t step = 1) {
    std::vector<int64_t> tokens(count);
    for (size_t i = 0; i < count; ++i)
        tokens[i] = static_cast<int64_t>(i) * step;
    return tokens;
}

std::vector<uint64_t> keys_of(std::span<const int64_t> tokens, int64_t page_size, uint64_t above) {
    std::vector<uint64_t> keys(tokens.size() / static_cast<size_t>(page_size));
    page_keys(tokens, page_size, above, keys);
    return keys;
}

// Routers and tests on other machines know the same numbers.
TEST(PageKeys, AreTheSameOnEveryMachine) {
    EXPECT_EQ(namespace_of(""), 7301574923124266302u);
    EXPECT_EQ(namespace_of("lora"), 2153246008515586482u);
    EXPECT_EQ(page_key(0, counting(64)), 4502973777734989323u);
    EXPECT_EQ(page_key(1, std::vector<int64_t>{-1, 2, 1ll << 40}), 6829395746305839310u);
}

TEST(PageKeys, AChainIsOfItsPages) {
    const uint64_t top = namespace_of("");
    for (const int64_t size : {1, 3, 4, 8, 9, 64}) {
        const auto tokens = counting(static_cast<size_t>(5 * size + size / 2), 977);
        const auto keys = keys_of(tokens, size, top);
        ASSERT_EQ(keys.size(), 5u);
        uint64_t one = top;
        for (size_t i = 0; i < keys.size(); ++i) {
            const auto page =
                std::span(tokens).subspan(i * static_cast<size_t>(size), static_cast<size_t>(size));
            one = page_key(one, page);
            EXPECT_EQ(keys[i], one);
        }
    }
}

TEST(PageKeys, BothWidthsOfPackedTokensHaveTheSame) {
    constexpr int64_t kLow = std::numeric_limits<int32_t>::min();
    constexpr int64_t kHigh = std::numeric_limits<int32_t>::max();
    const std::vector<int64_t> tokens{kLow, -1, 0, 1, kHigh, 77, 5, -9, 8, 9, 10, 11, -12};
    std::vector<std::byte> narrow(tokens.size() * 4), wide(tokens.size() * 8);
    ASSERT_TRUE(pack_narrow(tokens, narrow.data()));
    pack_wide(tokens, wide.data());
    const auto count = static_cast<int64_t>(tokens.size());
    for (int64_t size = 1; size <= count; ++size) {
        const auto expected = keys_of(tokens, size, 7);
        for (const auto& bytes : {narrow, wide}) {
            std::vector<uint64_t> keys(expected.size());
            page_keys(PackedTokens(bytes, count), size, 7, keys);
            EXPECT_EQ(keys, expected);
        }
    }
}

TEST(PageKeys, NameEverythingBefore) {
    const std::vector<int64_t> sevens(16, 7);
    const auto keys = keys_of(sevens, 4, namespace_of(""));
    EXPECT_EQ(std::unordered_set<uint64_t>(keys.begin(), keys.end()).size(), 4u);
    EXPECT_NE(keys[0], keys_of(sevens, 4, namespace_of("a"))[0]);
    auto other = sevens;
    other[0] = 8;
    const auto changed = keys_of(other, 4, namespace_of(""));
    for (size_t i = 0; i < keys.size(); ++i)
        EXPECT_NE(keys[i], changed[i]);
}

TEST(PageKeys, TheLengthCounts) {
    std::unordered_set<uint64_t> keys;
    for (size_t length = 1; length <= 40; ++length)
        keys.insert(page_key(0, std::vector<int64_t>(length, 0)));
    EXPECT_EQ(keys.size(), 40u);
    const std::string zeros(63, '\0');
    std::unordered_set<uint64_t> names;
    for (size_t length = 0; length <= zeros.size(); ++length)
        names.insert(namespace_of(std::string_view(zeros).substr(0, length)));
    EXPECT_EQ(names.size(), 64u);
}

// One changed bit, of any token or of the key above, changes each bit of the key in about half of
// the cases.
TEST(PageKeys, EveryBitCounts) {
    std::mt19937_64 random(1);
    for (const size_t size : {1, 7, 8, 64}) {
        std::vector<int> changed(64);
        int cases = 0;
        for (int round = 0; round < 2000; ++round) {
            std::vector<int64_t> tokens(size);
            for (int64_t& token : tokens)
                token = static_cast<int64_t>(random() % 150'000);
            const uint64_t above = random(), key = page_key(above, tokens);
            auto other = tokens;
            const uint64_t bit = uint64_t{1} << (random() % 64);
            other[random() % size] ^= static_cast<int64_t>(bit);
            for (const uint64_t changed_key :
                 {page_key(above, other), page_key(above ^ bit, tokens)}) {
                ++cases;
                EXPECT_GT(std::popcount(key ^ changed_key), 8);
                for (int i = 0; i < 64; ++i)
                    changed[static_cast<size_t>(i)] += (key ^ changed_key) >> i & 1;
            }
        }
        for (const int times : changed)
            EXPECT_NEAR(static_cast<double>(times) / cases, 0.5, 0.06) << size;
    }
}

// What tests, simulations and templates look like: small numbers, few changes.
TEST(PageKeys, TokensThatAreMuchAlikeHaveKeysApart) {
    std::unordered_set<uint64_t> keys, low;
    size_t count = 0;
    const auto add = [&](uint64_t key) {
        ++count;
        keys.insert(key);
        low.insert(key & 0xffff'ffff'ffff);
    };
    for (int64_t token = 0; token < 100'000; ++token)
        add(page_key(0, {&token, 1}));
    std::vector<int64_t> page(64, 3);
    for (size_t a = 0; a < 64; ++a) {
        for (int64_t value = 4; value < 1'000; ++value) {
            page[a] = value;
            add(page_key(0, page));
        }
        page[a] = 3;
    }
    for (size_t a = 0; a < 64; ++a)
        for (size_t b = a + 1; b < 64; ++b) {
            page[a] = 9;
            page[b] = 10;
            add(page_key(0, page));
            std::swap(page[a], page[b]);
            add(page_key(0, page));
            page[a] = page[b] = 3;
        }
    EXPECT_EQ(keys.size(), count);
    EXPECT_GE(low.size() + 10, count);  // by chance about 0.001 of 48 bits
}

}  // namespace
}  // namespace hicache
