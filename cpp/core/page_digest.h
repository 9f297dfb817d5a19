// A fast 64-bit digest of the bytes of one page of one layer.
//
// The bytes are those of all buffers of the layer, side by side as they lie in the host pool, read
// as little-endian words of 8 bytes, the last one filled up with zeros. With s(i) = (i + 1) *
// kStep, word i adds
//
//     fold(fold(w ^ s(i)) * kSpread) * (fold(s(i)) | 1)          fold(x) = x ^ (x >> 32)
//
// to a sum mod 2^64, so threads may add the words in any order. The digest is that sum and the
// number of bytes, mixed; where that gives 0 it is 1, so that 0 can say "not known".
//
// What it finds: each step is one to one in w, so any change within one word changes the sum,
// always. Changes of several words go unnoticed if their differences add up to 0. A difference
// depends on the word's place and on all bits from its lowest changed one on; `fold` brings changes
// of high bits down first, since mod 2^64 a high bit alone hardly moves a sum. So chance is all
// that can make them add up, about 1 in 2^64, for words that changed places too. It is no
// protection against somebody who wants bytes to have a digest: the keys are no secret. The page's
// number is not part of it: pages move.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#ifdef __CUDACC__
#define HICACHE_BOTH_SIDES __host__ __device__
#else
#define HICACHE_BOTH_SIDES
#endif

namespace hicache {

inline constexpr uint64_t kDigestStep = 0x9E3779B97F4A7C15;
inline constexpr uint64_t kDigestSpread = 0xD6E8FEB86659FD93;
inline constexpr int64_t kDigestWord = 8;

HICACHE_BOTH_SIDES constexpr uint64_t digest_fold(uint64_t x) {
    return x ^ (x >> 32);
}

// What a word adds to the sum. step: (i + 1) * kDigestStep for word i.
HICACHE_BOTH_SIDES constexpr uint64_t digest_share(uint64_t word, uint64_t step) {
    return digest_fold(digest_fold(word ^ step) * kDigestSpread) * (digest_fold(step) | 1);
}

// The digest of `bytes` bytes whose words add up to `sum`. Never 0.
HICACHE_BOTH_SIDES constexpr uint64_t finished_digest(uint64_t sum, uint64_t bytes) {
    const uint64_t mixed =
        digest_fold(digest_fold(sum + (bytes + 1) * kDigestStep) * kDigestSpread);
    return mixed == 0 ? 1 : mixed;
}

// Takes the bytes piece by piece, in order; pieces may end within a word.
class DigestSum {
  public:
    void add(const std::byte* bytes, size_t count);
    [[nodiscard]] uint64_t digest() const;

  private:
    uint64_t sum_ = 0;
    uint64_t step_ = kDigestStep;  // of the next word
    uint64_t begun_ = 0;           // the bytes of it that are there
    uint64_t bytes_ = 0;
};

[[nodiscard]] uint64_t page_digest(std::span<const std::byte> bytes);

}  // namespace hicache
