// Token ids packed into as few bytes as hold them: 4 bytes a token where all fit into int32,
// else 8. What a cache keeps of a prompt, to be compared with what comes in as int64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

namespace hicache {

// Writes 4 bytes a token. False where a token does not fit: what was written means nothing then.
bool pack_narrow(std::span<const int64_t> tokens, std::byte* out);

// Writes 8 bytes a token.
void pack_wide(std::span<const int64_t> tokens, std::byte* out);

// A packed run, seen as tokens. Does not own the bytes.
class PackedTokens {
  public:
    // Throws: std::invalid_argument unless the bytes are 4 or 8 a token.
    PackedTokens(std::span<const std::byte> bytes, int64_t tokens);

    [[nodiscard]] int64_t size() const { return size_; }
    [[nodiscard]] int64_t width() const { return narrow_ ? 4 : 8; }

    // Token i of a run of that width. Requires: kWidth == width(), 0 <= i < size().
    template <int kWidth>
    [[nodiscard]] int64_t at(int64_t i) const {
        std::conditional_t<kWidth == 4, int32_t, int64_t> token;
        std::memcpy(&token, data_ + i * kWidth, sizeof(token));
        return token;
    }

    void unpack(int64_t* out) const;

    // How many leading tokens of the run and of `other` are equal.
    [[nodiscard]] int64_t common_prefix(std::span<const int64_t> other) const;

    // token_hash() of the first `count` tokens. Requires: count <= size().
    [[nodiscard]] uint64_t hash(int64_t count) const;

  private:
    const std::byte* data_;
    int64_t size_;
    bool narrow_;
};

// 64-bit hash of token ids; differs from process to process.
[[nodiscard]] uint64_t token_hash(std::span<const int64_t> tokens);

}  // namespace hicache
