// An immutable run of token ids. Slices share the buffer they were cut from; copy() makes a run
// whose buffer is exactly as long as the run, so that it keeps nothing else alive.
//
// Immutable, so safe to share between threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace hicache {

class TokenSpan {
  public:
    // A view of tokens that `owner` keeps alive. The caller promises that nobody changes them.
    TokenSpan(std::span<const int64_t> tokens, std::shared_ptr<const void> owner);

    [[nodiscard]] TokenSpan copy() const;
    // Tokens [begin, end). Throws: std::invalid_argument unless 0 <= begin <= end <= size.
    [[nodiscard]] TokenSpan slice(int64_t begin, int64_t end) const;

    [[nodiscard]] int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
    [[nodiscard]] std::span<const int64_t> tokens() const { return tokens_; }
    // Tokens in the buffer that this run keeps alive.
    [[nodiscard]] int64_t buffer_tokens() const { return buffer_tokens_; }

    // How many leading tokens of [offset, size) and of `other` are equal, at the speed of memcmp.
    // Throws: std::invalid_argument unless 0 <= offset <= size.
    [[nodiscard]] int64_t common_prefix(std::span<const int64_t> other, int64_t offset = 0) const;

    // 64-bit hash of the tokens; differs from process to process.
    [[nodiscard]] uint64_t hash() const;
    bool operator==(const TokenSpan& other) const;

  private:
    TokenSpan(std::span<const int64_t> tokens, std::shared_ptr<const void> owner, int64_t buffer);

    std::span<const int64_t> tokens_;
    std::shared_ptr<const void> owner_;
    int64_t buffer_tokens_;
};

}  // namespace hicache
