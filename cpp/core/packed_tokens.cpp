#include "core/packed_tokens.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "core/errors.h"

namespace hicache {
namespace {

uint64_t process_seed() {
    static const uint64_t seed = [] {
        std::random_device device;
        return (uint64_t{device()} << 32) ^ device();
    }();
    return seed;
}

// Folded 64 x 64 -> 128 bit product: the mixing step of wyhash and friends.
inline uint64_t fold(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

constexpr uint64_t kMix[4] = {0x2d358dccaa6c78a5, 0x8bb84b93962eacc9, 0x4b33a62ed433d4a3,
                              0x4d5a2da51de1aa47};

template <typename T>
inline T load(const std::byte* data, int64_t index) {
    T value;
    std::memcpy(&value, data + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
}

// The same for runs of either width: a token counts with its value.
template <typename T>
uint64_t hash_of(const std::byte* data, int64_t count) {
    const uint64_t seed = process_seed();
    const auto at = [data](int64_t i) {
        return static_cast<uint64_t>(static_cast<int64_t>(load<T>(data, i)));
    };
    uint64_t x = seed, y = seed ^ kMix[3];
    int64_t i = 0;
    for (; i + 4 <= count; i += 4) {  // two independent chains
        x = fold(at(i) ^ kMix[0], at(i + 1) ^ x);
        y = fold(at(i + 2) ^ kMix[1], at(i + 3) ^ y);
    }
    for (; i < count; ++i)
        x = fold(at(i) ^ kMix[2], x ^ kMix[1]);
    return fold(x ^ kMix[0] ^ static_cast<uint64_t>(count), y ^ kMix[2]);
}

// Blocks without a branch inside, which compilers turn into vector code.
template <typename T>
int64_t common_prefix_of(const std::byte* data, const int64_t* other, int64_t n) {
    constexpr int64_t kBlock = 64;
    int64_t at = 0;
    for (; at + kBlock <= n; at += kBlock) {
        int64_t difference = 0;
        for (int64_t i = 0; i < kBlock; ++i)
            difference |= load<T>(data, at + i) ^ other[at + i];
        if (difference != 0) break;
    }
    while (at < n && load<T>(data, at) == other[at])
        ++at;
    return at;
}

}  // namespace

bool pack_narrow(std::span<const int64_t> tokens, std::byte* out) {
    constexpr size_t kBlock = 1024;  // a token beyond int32 ends the attempt soon
    for (size_t begin = 0; begin < tokens.size(); begin += kBlock) {
        const auto block = tokens.subspan(begin, std::min(kBlock, tokens.size() - begin));
        int64_t beyond = 0;
        for (size_t i = 0; i < block.size(); ++i) {
            const auto token = static_cast<int32_t>(block[i]);
            beyond |= block[i] ^ token;
            std::memcpy(out + (begin + i) * sizeof(token), &token, sizeof(token));
        }
        if (beyond != 0) return false;
    }
    return true;
}

void pack_wide(std::span<const int64_t> tokens, std::byte* out) {
    if (!tokens.empty()) std::memcpy(out, tokens.data(), tokens.size_bytes());
}

PackedTokens::PackedTokens(std::span<const std::byte> bytes, int64_t tokens)
    : data_(bytes.data()),
      size_(tokens),
      narrow_(static_cast<int64_t>(bytes.size()) == tokens * 4) {
    if (tokens < 0 || (!narrow_ && static_cast<int64_t>(bytes.size()) != tokens * 8)) {
        bad_argument(bytes.size(), " bytes are not ", tokens, " tokens of 4 or 8 bytes.");
    }
}

void PackedTokens::unpack(int64_t* out) const {
    if (!narrow_) {
        if (size_ > 0) std::memcpy(out, data_, static_cast<size_t>(size_) * sizeof(int64_t));
        return;
    }
    for (int64_t i = 0; i < size_; ++i)
        out[i] = load<int32_t>(data_, i);
}

int64_t PackedTokens::common_prefix(std::span<const int64_t> other) const {
    const int64_t n = std::min(size_, static_cast<int64_t>(other.size()));
    return narrow_ ? common_prefix_of<int32_t>(data_, other.data(), n)
                   : common_prefix_of<int64_t>(data_, other.data(), n);
}

uint64_t PackedTokens::hash(int64_t count) const {
    return narrow_ ? hash_of<int32_t>(data_, count) : hash_of<int64_t>(data_, count);
}

uint64_t token_hash(std::span<const int64_t> tokens) {
    return hash_of<int64_t>(reinterpret_cast<const std::byte*>(tokens.data()),
                            static_cast<int64_t>(tokens.size()));
}

}  // namespace hicache
