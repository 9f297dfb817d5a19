#include "core/blake2b.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hicache {
namespace {

// RFC 7693, 2.6 and 2.7.
constexpr std::array<uint64_t, 8> kIv{0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                                      0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                                      0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
constexpr uint8_t kSigma[10][16] = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
                                    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
                                    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
                                    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
                                    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
                                    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
                                    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
                                    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
                                    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
                                    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

uint64_t little_endian(uint64_t value) {
    if constexpr (std::endian::native == std::endian::little) return value;
    return __builtin_bswap64(value);
}

inline void mix(uint64_t& a, uint64_t& b, uint64_t& c, uint64_t& d, uint64_t x, uint64_t y) {
    a += b + x;
    d = std::rotr(d ^ a, 32);
    c += d;
    b = std::rotr(b ^ c, 24);
    a += b + y;
    d = std::rotr(d ^ a, 16);
    c += d;
    b = std::rotr(b ^ c, 63);
}

}  // namespace

Blake2b::Blake2b(size_t digest_bytes) : state_(kIv) {
    state_[0] ^= 0x01010000 ^ digest_bytes;
}

void Blake2b::compress(const std::byte* block, bool last) {
    uint64_t m[16];
    std::memcpy(m, block, sizeof m);
    for (auto& word : m)
        word = little_endian(word);
    uint64_t v[16];
    std::copy(state_.begin(), state_.end(), v);
    std::copy(kIv.begin(), kIv.end(), v + 8);
    v[12] ^= total_;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; ++round) {
        const uint8_t* s = kSigma[round % 10];
        mix(v[0], v[4], v[8], v[12], m[s[0]], m[s[1]]);
        mix(v[1], v[5], v[9], v[13], m[s[2]], m[s[3]]);
        mix(v[2], v[6], v[10], v[14], m[s[4]], m[s[5]]);
        mix(v[3], v[7], v[11], v[15], m[s[6]], m[s[7]]);
        mix(v[0], v[5], v[10], v[15], m[s[8]], m[s[9]]);
        mix(v[1], v[6], v[11], v[12], m[s[10]], m[s[11]]);
        mix(v[2], v[7], v[8], v[13], m[s[12]], m[s[13]]);
        mix(v[3], v[4], v[9], v[14], m[s[14]], m[s[15]]);
    }
    for (int i = 0; i < 8; ++i)
        state_[i] ^= v[i] ^ v[i + 8];
}

void Blake2b::update(std::span<const std::byte> data) {
    while (!data.empty()) {
        if (filled_ == block_.size()) {  // a full block is compressed only once more data follows
            total_ += filled_;
            compress(block_.data(), false);
            filled_ = 0;
        }
        const size_t n = std::min(block_.size() - filled_, data.size());
        std::memcpy(block_.data() + filled_, data.data(), n);
        filled_ += n;
        data = data.subspan(n);
    }
}

void Blake2b::finish(std::span<std::byte> out) {
    total_ += filled_;
    std::fill(block_.begin() + static_cast<ptrdiff_t>(filled_), block_.end(), std::byte{0});
    compress(block_.data(), true);
    for (auto& word : state_)
        word = little_endian(word);
    std::memcpy(out.data(), state_.data(), out.size());
}

}  // namespace hicache
