#include "core/token_span.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/errors.h"
#include "core/packed_tokens.h"

namespace hicache {

TokenSpan::TokenSpan(std::span<const int64_t> tokens, std::shared_ptr<const void> owner)
    : TokenSpan(tokens, std::move(owner), static_cast<int64_t>(tokens.size())) {}

TokenSpan::TokenSpan(std::span<const int64_t> tokens, std::shared_ptr<const void> owner,
                     int64_t buffer)
    : tokens_(tokens), owner_(std::move(owner)), buffer_tokens_(buffer) {}

TokenSpan TokenSpan::copy() const {
    auto buffer = std::make_shared<int64_t[]>(tokens_.size());
    std::copy(tokens_.begin(), tokens_.end(), buffer.get());
    const std::span<const int64_t> tokens(buffer.get(), tokens_.size());
    return {tokens, std::move(buffer)};
}

TokenSpan TokenSpan::slice(int64_t begin, int64_t end) const {
    if (begin < 0 || begin > end || end > size()) {
        bad_argument("Cannot slice [", begin, ", ", end, ") out of ", size(), " tokens.");
    }
    const auto part = tokens_.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    return {part, owner_, buffer_tokens_};
}

int64_t TokenSpan::common_prefix(std::span<const int64_t> other, int64_t offset) const {
    if (offset < 0 || offset > size()) {
        bad_argument("Offset ", offset, " is outside the run of ", size(), " tokens.");
    }
    constexpr size_t kBlock = 512;  // tokens a memcmp: 4 KiB
    const auto mine = tokens_.subspan(static_cast<size_t>(offset));
    const size_t n = std::min(mine.size(), other.size());
    const int64_t* a = mine.data();
    const int64_t* b = other.data();
    if (a == b) return static_cast<int64_t>(n);
    size_t at = 0;
    while (at < n) {
        const size_t block = std::min(kBlock, n - at);
        if (std::memcmp(a + at, b + at, block * sizeof(int64_t)) != 0) break;
        at += block;
    }
    const size_t end = std::min(n, at + kBlock);
    return std::mismatch(a + at, a + end, b + at).first - a;
}

uint64_t TokenSpan::hash() const {
    return token_hash(tokens_);
}

bool TokenSpan::operator==(const TokenSpan& other) const {
    if (size() != other.size()) return false;
    if (tokens_.data() == other.tokens_.data() || tokens_.empty()) return true;
    return std::memcmp(tokens_.data(), other.tokens_.data(), tokens_.size_bytes()) == 0;
}

}  // namespace hicache
