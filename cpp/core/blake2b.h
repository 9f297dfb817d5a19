// BLAKE2b, unkeyed (RFC 7693): the digest of hashlib.blake2b(data, digest_size=n).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace hicache {

class Blake2b {
  public:
    // Requires: 1 <= digest_bytes <= 64.
    explicit Blake2b(size_t digest_bytes);

    void update(std::span<const std::byte> data);

    // Writes the digest. Requires: out.size() == digest_bytes; called once.
    void finish(std::span<std::byte> out);

  private:
    void compress(const std::byte* block, bool last);

    std::array<uint64_t, 8> state_;
    std::array<std::byte, 128> block_;
    size_t filled_ = 0;   // bytes waiting in block_
    uint64_t total_ = 0;  // bytes compressed; inputs stay below 2^64 bytes
};

using Digest = std::array<std::byte, 16>;  // BLAKE2b-128

}  // namespace hicache
