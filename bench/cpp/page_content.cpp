#include "page_content.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

namespace hicache::bench {
namespace {

using Word = std::array<std::byte, sizeof(uint64_t)>;

constexpr size_t kWord = sizeof(Word);
constexpr uint64_t kStep = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio, odd

// The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators).
uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
    return x ^ (x >> 31);
}

uint64_t key_of(const PageContent& content, int64_t array) {
    const uint64_t of_page = mixed(content.seed) + static_cast<uint64_t>(content.page);
    return mixed(mixed(of_page) + static_cast<uint64_t>(array));
}

// The bytes of the index-th word.
Word word_at(uint64_t key, size_t index) {
    return std::bit_cast<Word>(mixed(key + kStep * index));
}

}  // namespace

void PageContent::fill(int64_t array, std::span<std::byte> bytes) const {
    const uint64_t key = key_of(*this, array);
    const size_t words = bytes.size() / kWord;
    for (size_t i = 0; i < words; ++i) {
        const Word word = word_at(key, i);
        std::memcpy(bytes.data() + i * kWord, word.data(), kWord);
    }
    const Word last = word_at(key, words);
    std::memcpy(bytes.data() + words * kWord, last.data(), bytes.size() % kWord);
}

std::optional<int64_t> PageContent::first_difference(int64_t array,
                                                     std::span<const std::byte> bytes) const {
    const uint64_t key = key_of(*this, array);
    size_t same = 0;  // whole words
    while (same < bytes.size() / kWord) {
        const Word word = word_at(key, same);
        if (std::memcmp(bytes.data() + same * kWord, word.data(), kWord) != 0) break;
        ++same;
    }
    const Word word = word_at(key, same);
    for (size_t at = same * kWord; at < std::min(bytes.size(), (same + 1) * kWord); ++at) {
        if (bytes[at] != word[at % kWord]) return static_cast<int64_t>(at);
    }
    return std::nullopt;
}

std::byte PageContent::at(int64_t array, int64_t offset) const {
    const auto index = static_cast<size_t>(offset);
    return word_at(key_of(*this, array), index / kWord)[index % kWord];
}

}  // namespace hicache::bench
