#include "core/bit_tree.h"

#include <bit>

namespace hicache {

BitTree::BitTree(int64_t size) : size_(size) {
    int64_t words = (size + 63) / 64;
    levels_.emplace_back(words);
    while (words > 1) {
        words = (words + 63) / 64;
        levels_.emplace_back(words);
    }
}

void BitTree::insert(int64_t i) {
    for (auto& level : levels_) {
        uint64_t& word = level[i >> 6];
        const bool had_members = word != 0;
        word |= uint64_t{1} << (i & 63);
        if (had_members) return;  // the parents already know
        i >>= 6;
    }
}

void BitTree::erase(int64_t i) {
    for (auto& level : levels_) {
        uint64_t& word = level[i >> 6];
        word &= ~(uint64_t{1} << (i & 63));
        if (word != 0) return;
        i >>= 6;
    }
}

bool BitTree::contains(int64_t i) const {
    return (levels_[0][i >> 6] >> (i & 63)) & 1;
}

int64_t BitTree::first_from(int64_t i) const {
    if (i >= size_) return -1;
    // Up, until a word has a member at or after i; then down along the lowest bits.
    for (size_t level = 0; level < levels_.size(); ++level) {
        if ((i >> 6) >= levels_[level].size()) return -1;
        const uint64_t rest = levels_[level][i >> 6] >> (i & 63);
        if (rest != 0) {
            i += std::countr_zero(rest);
            while (level-- > 0)
                i = (i << 6) + std::countr_zero(levels_[level][i]);
            return i;
        }
        i = (i >> 6) + 1;  // this word is exhausted: look right of it, one level up
    }
    return -1;
}

int64_t BitTree::largest() const {
    size_t level = levels_.size() - 1;
    if (levels_[level].size() == 0 || levels_[level][0] == 0) return -1;
    int64_t i = 63 - std::countl_zero(levels_[level][0]);
    while (level-- > 0)
        i = (i << 6) + 63 - std::countl_zero(levels_[level][i]);
    return i;
}

}  // namespace hicache
