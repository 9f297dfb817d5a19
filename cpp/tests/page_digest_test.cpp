// The digest of a page's bytes: known values, every changed bit, pieces in any cut.
#include "core/page_digest.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace hicache {
namespace {

std::vector<std::byte> random_bytes(size_t count, uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> bytes(count);
    for (std::byte& byte : bytes)
        byte = static_cast<std::byte>(random() >> 56);
    return bytes;
}

// 0, 1, 2, ... 255, 0, ...
std::vector<std::byte> counted_bytes(size_t count) {
    std::vector<std::byte> bytes(count);
    for (size_t i = 0; i < count; ++i)
        bytes[i] = static_cast<std::byte>(i);
    return bytes;
}

// The same by the words of the header, without its code.
uint64_t by_definition(const std::vector<std::byte>& bytes) {
    const auto fold = [](uint64_t x) { return x ^ (x >> 32); };
    uint64_t sum = 0;
    for (size_t i = 0; 8 * i < bytes.size(); ++i) {
        uint64_t word = 0;
        for (size_t k = 0; k < 8 && 8 * i + k < bytes.size(); ++k)
            word |= std::to_integer<uint64_t>(bytes[8 * i + k]) << (8 * k);
        const uint64_t s = (i + 1) * 0x9E3779B97F4A7C15;
        sum += fold(fold(word ^ s) * 0xD6E8FEB86659FD93) * (fold(s) | 1);
    }
    const uint64_t total = sum + (bytes.size() + 1) * 0x9E3779B97F4A7C15;
    const uint64_t mixed = fold(fold(total) * 0xD6E8FEB86659FD93);
    return mixed == 0 ? 1 : mixed;
}

TEST(PageDigest, KnownValues) {
    EXPECT_EQ(page_digest({}), 0x17fb89ee9dcab42au);
    EXPECT_EQ(page_digest(std::vector<std::byte>(8448)), 0x8340a38631188834u);
    EXPECT_EQ(page_digest(counted_bytes(41984)), 0x7e9da425cdd7f9d3u);
    EXPECT_EQ(page_digest(counted_bytes(13)), 0x8aeacd590ddc2af4u);
}

TEST(PageDigest, IsWhatTheHeaderSays) {
    for (size_t count = 0; count < 300; ++count) {
        const auto bytes = random_bytes(count, count);
        ASSERT_EQ(page_digest(bytes), by_definition(bytes)) << count;
    }
    for (const size_t count : {4096, 8448, 36864, 41984, 73728, 73729, 73735}) {
        const auto bytes = random_bytes(count, count);
        ASSERT_EQ(page_digest(bytes), by_definition(bytes)) << count;
    }
}

TEST(PageDigest, ComesOutTheSameHoweverTheBytesAreCut) {
    const auto bytes = random_bytes(132 * 64 + 5, 1);
    std::minstd_rand random(2);
    for (int round = 0; round < 200; ++round) {
        DigestSum sum;
        for (size_t at = 0; at < bytes.size();) {
            const size_t piece = std::min<size_t>(random() % 300, bytes.size() - at);
            sum.add(bytes.data() + at, piece);
            at += piece;
        }
        ASSERT_EQ(sum.digest(), page_digest(bytes));
    }
}

TEST(PageDigest, EveryChangedBitShows) {
    auto bytes = random_bytes(8448, 3);
    const uint64_t before = page_digest(bytes);
    for (size_t i = 0; i < bytes.size(); ++i) {
        for (int bit = 0; bit < 8; ++bit) {
            bytes[i] ^= std::byte{1} << bit;
            ASSERT_NE(page_digest(bytes), before) << "bit " << bit << " of byte " << i;
            bytes[i] ^= std::byte{1} << bit;
        }
    }
}

// The top bit of a word is the one that a sum mod 2^64 sees least of: pairs, and all of them.
TEST(PageDigest, TopBitsOfSeveralWordsShow) {
    for (const uint64_t seed : {0, 4}) {
        auto bytes = seed == 0 ? std::vector<std::byte>(2048) : random_bytes(2048, seed);
        const uint64_t before = page_digest(bytes);
        for (size_t i = 7; i < bytes.size(); i += 8) {
            bytes[i] ^= std::byte{0x80};
            for (size_t k = i + 8; k < bytes.size(); k += 8) {
                bytes[k] ^= std::byte{0x80};
                ASSERT_NE(page_digest(bytes), before) << i << " and " << k;
                bytes[k] ^= std::byte{0x80};
            }
        }
        for (size_t stride = 8; stride <= 1024; stride += 8) {
            auto stuck = bytes;
            for (size_t i = 7; i < stuck.size(); i += stride)
                stuck[i] ^= std::byte{0x80};
            EXPECT_NE(page_digest(stuck), page_digest(bytes)) << stride;
        }
    }
}

TEST(PageDigest, WordsRowsAndLengthsThatChangedPlacesShow) {
    const auto bytes = random_bytes(64 * 656, 5);
    const uint64_t before = page_digest(bytes);
    for (const size_t width : {8, 16, 132, 656}) {
        for (size_t at = 0; at + 2 * width <= bytes.size(); at += width) {
            auto swapped = bytes;
            std::swap_ranges(swapped.begin() + at, swapped.begin() + at + width,
                             swapped.begin() + at + width);
            ASSERT_NE(page_digest(swapped), before) << width << " at " << at;
        }
    }
    auto turned = bytes;
    std::rotate(turned.begin(), turned.begin() + 656, turned.end());
    EXPECT_NE(page_digest(turned), before);
    for (size_t count = 1; count < 64; ++count) {
        EXPECT_NE(page_digest(std::vector<std::byte>(count)),
                  page_digest(std::vector<std::byte>(count - 1)));
    }
}

// 2^20 digests of nearly equal pages: a digest of 45 bits would be expected to repeat.
TEST(PageDigest, NearlyEqualPagesHaveDigestsOfTheirOwn) {
    std::vector<uint64_t> digests;
    std::vector<std::byte> bytes(512);
    for (size_t a = 0; a < 64; ++a) {
        for (size_t b = a + 1; b < 64; ++b) {
            for (int bits = 0; bits < 512; ++bits) {
                bytes[8 * a + (bits % 8)] ^= std::byte{1} << (bits / 8 % 8);
                bytes[8 * b + (bits / 64)] ^= std::byte{0x80};
                digests.push_back(page_digest(bytes));
                bytes[8 * a + (bits % 8)] ^= std::byte{1} << (bits / 8 % 8);
                bytes[8 * b + (bits / 64)] ^= std::byte{0x80};
            }
        }
    }
    std::sort(digests.begin(), digests.end());
    EXPECT_EQ(std::adjacent_find(digests.begin(), digests.end()), digests.end());
}

}  // namespace
}  // namespace hicache
