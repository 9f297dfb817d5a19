#include "core/page_keys.h"

#include <algorithm>
#include <array>
#include <vector>

namespace hicache {
namespace {

constexpr uint64_t kMix[8] = {0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b,
                              0xa54ff53a5f1d36f1, 0x510e527fade682d1, 0x9b05688c2b3e6c1f,
                              0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

inline uint64_t fold(uint64_t a, uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// at(i): word i as uint64. A page's own words do not wait for the key before it, so that the
// products of several pages overlap.
template <typename At>
inline uint64_t mix_words(int64_t count, const At& at) {
    std::array<uint64_t, 4> lanes = {kMix[4], kMix[5], kMix[6], kMix[7]};
    int64_t i = 0;
    for (; i + 8 <= count; i += 8) {
        for (size_t lane = 0; lane < 4; ++lane) {
            const int64_t first = i + 2 * static_cast<int64_t>(lane);
            lanes[lane] = fold(at(first) ^ kMix[lane], at(first + 1) ^ lanes[lane]);
        }
    }
    for (; i < count; ++i)
        lanes[0] = fold(at(i) ^ kMix[0], lanes[0] ^ kMix[1]);
    const uint64_t low = fold(lanes[0] ^ kMix[2], lanes[1] ^ static_cast<uint64_t>(count));
    const uint64_t high = fold(lanes[2] ^ kMix[3], lanes[3] ^ kMix[0]);
    return fold(low ^ kMix[1], high ^ kMix[4]);
}

inline uint64_t chained(uint64_t above, uint64_t words) {
    return fold(above ^ kMix[5], words ^ kMix[6]);
}

template <typename At>
void keys_of(int64_t page_size, uint64_t above, std::span<uint64_t> out, const At& at) {
    int64_t begin = 0;
    for (uint64_t& key : out) {
        const auto word = [&at, begin](int64_t i) { return at(begin + i); };
        above = key = chained(above, mix_words(page_size, word));
        begin += page_size;
    }
}

}  // namespace

uint64_t namespace_key(std::span<const std::byte> name) {
    std::vector<uint64_t> words(name.size() / 8 + 1);  // the last one is padded with zeros
    for (size_t i = 0; i < name.size(); ++i)
        words[i / 8] |= static_cast<uint64_t>(name[i]) << (i % 8 * 8);
    const auto at = [&words](int64_t i) { return words[static_cast<size_t>(i)]; };
    return chained(name.size(), mix_words(static_cast<int64_t>(words.size()), at));
}

void page_keys(std::span<const int64_t> tokens, int64_t page_size, uint64_t above,
               std::span<uint64_t> out) {
    keys_of(page_size, above, out,
            [data = tokens.data()](int64_t i) { return static_cast<uint64_t>(data[i]); });
}

void page_keys(const PackedTokens& tokens, int64_t page_size, uint64_t above,
               std::span<uint64_t> out) {
    if (tokens.width() == 4) {
        const auto at = [&tokens](int64_t i) { return static_cast<uint64_t>(tokens.at<4>(i)); };
        keys_of(page_size, above, out, at);
    } else {
        const auto at = [&tokens](int64_t i) { return static_cast<uint64_t>(tokens.at<8>(i)); };
        keys_of(page_size, above, out, at);
    }
}

}  // namespace hicache
