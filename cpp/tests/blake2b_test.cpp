#include "core/blake2b.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/page_hash.h"
#include "tests/expect_error.h"

namespace hicache {
namespace {

std::string hex(std::span<const std::byte> bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<int>(byte) >> 4];
        text += kDigits[std::to_integer<int>(byte) & 15];
    }
    return text;
}

std::span<const std::byte> bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
}

TEST(Blake2b, ExampleOfTheRfc) {  // RFC 7693, appendix A
    Blake2b hash(64);
    hash.update(bytes("abc"));
    std::array<std::byte, 64> digest;
    hash.finish(digest);
    EXPECT_EQ(hex(digest),
              "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1"
              "7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923");
}

// hashlib.blake2b(bytes(i % 251 for i in range(n)), digest_size=16).hexdigest()
const std::vector<std::pair<int, std::string>> kVectors{
    {0, "cae66941d9efbd404e4d88758ea67670"},   {1, "7025e075d5e2f6cde3cc051a31f07660"},
    {64, "59059895958b8a56277edb046df67166"},  {127, "28b1296c7d4807883de6ee4ec04dcc0a"},
    {128, "a74787004ef589e31149183900d0294a"}, {129, "aaf1b0371f6d4ee49ee4fb5ddd9c49ef"},
    {255, "e2f3b2a57bcf64d626b37fc9c12674a1"}, {256, "1142c504dcd26338b7cbcf41424540d0"},
    {257, "b77b55d3dddcc45c6a52774565cd0dd6"}, {1000, "bca120dfd89cd95d82898473a5b01c90"},
};

TEST(Blake2b, SameDigestsAsHashlibHoweverTheInputIsCut) {
    for (const auto& [size, expected] : kVectors) {
        std::vector<std::byte> input(static_cast<size_t>(size));
        for (size_t i = 0; i < input.size(); ++i)
            input[i] = static_cast<std::byte>(i % 251);
        for (const size_t step : {1u, 7u, 64u, 128u, 129u, 4096u}) {
            Blake2b hash(16);
            for (size_t at = 0; at < input.size(); at += step) {
                hash.update(std::span(input).subspan(at, std::min(step, input.size() - at)));
            }
            Digest digest;
            hash.finish(digest);
            EXPECT_EQ(hex(digest), expected) << size << " bytes in steps of " << step;
        }
    }
}

TEST(PageHash, KnownChain) {  // computed with hashlib
    const Digest seed = namespace_seed(bytes("dsa"), bytes("ab"));
    EXPECT_EQ(hex(seed), "363f0056271889046308616376f1fcd5");
    std::vector<int64_t> tokens(11);
    std::iota(tokens.begin(), tokens.end(), 0);
    const auto hashes = page_hashes(tokens, 4, seed);
    ASSERT_EQ(hashes.size(), 2u);  // three tokens are no whole page
    EXPECT_EQ(hex(hashes[0]), "5aeb2ec842b126e96b9dbbde42574b71");
    EXPECT_EQ(hex(hashes[1]), "fc15109f284c190e0683d312f480395d");
}

TEST(PageHash, F11PartsDoNotRunIntoEachOther) {
    EXPECT_NE(namespace_seed(bytes("a"), bytes("bc")), namespace_seed(bytes("ab"), bytes("c")));
    EXPECT_NE(namespace_seed(bytes(""), bytes("abc")), namespace_seed(bytes("abc"), bytes("")));
}

TEST(PageHash, F16NoTokenBitIsLost) {
    const Digest seed{};
    const auto hash = [&](std::vector<int64_t> tokens) {
        return page_hashes(tokens, static_cast<int64_t>(tokens.size()), seed)[0];
    };
    EXPECT_NE(hash({65, 66}), hash({321, 66}));
    EXPECT_NE(hash({1, 23}), hash({12, 3}));
    EXPECT_NE(hash({2147483647, 0}), hash({-1, 0}));
    EXPECT_NE(hash({2147483647, 0}), hash({4294967295 + 2147483648, 0}));
}

TEST(PageHash, RejectsAPageOfNothing) {
    EXPECT_ERROR(page_hashes({}, 0, Digest{}), std::invalid_argument, "page_size is 0");
}

}  // namespace
}  // namespace hicache
