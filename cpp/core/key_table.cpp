#include "core/key_table.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr size_t kBatch = 64;  // keys whose memory is fetched at the same time
constexpr int64_t kBucketsPerKey = 2;

int64_t most_buckets(int64_t num_pages) {
    return std::max<int64_t>(1, kBucketsPerKey * num_pages);
}

}  // namespace

KeyTable::KeyTable(int64_t num_pages) : heads_(most_buckets(num_pages)), slots_(num_pages) {}

int64_t KeyTable::bucket(uint32_t hash) const {
    const int64_t split = hash & (2 * round_ - 1);
    return split < buckets_ ? split : hash & (round_ - 1);
}

uint32_t KeyTable::find(const Key& key, uint32_t hash) const {
    for (uint32_t link = heads_[bucket(hash)]; link != 0; link = slots_[link - 1].next) {
        const Slot& slot = slots_[link - 1];
        if (slot.hash == hash && slot.key.key() == key) return link - 1;
    }
    return kNoPage;
}

void KeyTable::find_all(std::span<const Key> keys, std::span<uint32_t> pages) const {
    std::array<uint32_t, kBatch> hashes;
    for (size_t start = 0; start < keys.size(); start += kBatch) {
        const size_t n = std::min(kBatch, keys.size() - start);
        for (size_t i = 0; i < n; ++i) {
            hashes[i] = keys[start + i].hash();
            __builtin_prefetch(&heads_[bucket(hashes[i])]);
        }
        for (size_t i = 0; i < n; ++i) {
            if (const uint32_t link = heads_[bucket(hashes[i])]; link != 0) {
                const auto* slot = reinterpret_cast<const char*>(&slots_[link - 1]);
                __builtin_prefetch(slot);
                __builtin_prefetch(slot + sizeof(Slot) - 1);
            }
        }
        for (size_t i = 0; i < n; ++i)
            pages[start + i] = find(keys[start + i], hashes[i]);
    }
}

void KeyTable::insert(const Key& key, uint32_t page) {
    const uint32_t hash = key.hash();
    ++size_;
    for (int64_t i = 0; i < kBucketsPerKey && buckets_ < kBucketsPerKey * size_; ++i)
        split_one();
    uint32_t& head = heads_[bucket(hash)];
    slots_[page] = {hash, head, StoredKey(key)};
    head = page + 1;
}

// Bucket `buckets_` comes into use and takes over what is its own of bucket `buckets_ - round_`.
void KeyTable::split_one() {
    const int64_t fresh = buckets_++;
    uint32_t* stays = &heads_[fresh - round_];
    uint32_t* moves = &heads_[fresh];
    for (uint32_t link = *stays; link != 0; link = slots_[link - 1].next) {
        uint32_t*& tail = (slots_[link - 1].hash & round_) != 0 ? moves : stays;
        *tail = link;
        tail = &slots_[link - 1].next;
    }
    *stays = *moves = 0;
    if (buckets_ == 2 * round_) round_ = buckets_;
}

void KeyTable::erase(uint32_t page) {
    uint32_t* link = &heads_[bucket(slots_[page].hash)];
    while (*link != page + 1)
        link = &slots_[*link - 1].next;
    *link = slots_[page].next;
    --size_;
}

std::vector<uint32_t> KeyTable::pages() const {
    std::vector<uint32_t> found;
    found.reserve(static_cast<size_t>(size_));
    for (int64_t i = 0; i < buckets_; ++i) {
        for (uint32_t link = heads_[i]; link != 0; link = slots_[link - 1].next)
            found.push_back(link - 1);
    }
    return found;
}

void KeyTable::check() const {
    if (!std::has_single_bit(static_cast<uint64_t>(round_)) || buckets_ < round_ ||
        buckets_ >= 2 * round_ || buckets_ > heads_.size()) {
        bad_state("buckets ", buckets_, " in a round of ", round_, ", room for ", heads_.size());
    }
    int64_t found = 0;
    for (int64_t i = 0; i < buckets_; ++i) {
        for (uint32_t link = heads_[i]; link != 0; link = slots_[link - 1].next) {
            const uint32_t page = link - 1;
            if (page >= slots_.size()) bad_state("page ", page, " of ", slots_.size());
            if (++found > size_) bad_state("keys in buckets ", found, " > by counter ", size_);
            const Slot& slot = slots_[page];
            const Key key = slot.key.key();
            if (slot.hash != key.hash() || bucket(slot.hash) != i)
                bad_state("page ", page, " with hash ", slot.hash, " is in bucket ", i);
            if (find(key) != page)
                bad_state("key ", key.describe(), " of page ", page, " finds page ", find(key));
        }
    }
    if (found != size_) bad_state("keys in buckets ", found, " != by counter ", size_);
    for (int64_t i = buckets_; i < heads_.size() && i < buckets_ + 64; ++i) {
        if (heads_[i] != 0) bad_state("bucket ", i, " of ", buckets_, " is in use");
    }
}

std::optional<std::pair<size_t, size_t>> find_repeat(std::span<const Key> keys) {
    const size_t mask = std::bit_ceil(2 * keys.size() + 1) - 1;
    std::vector<size_t> seen(mask + 1);  // position + 1, 0 = none
    for (size_t i = 0; i < keys.size(); ++i) {
        size_t at = keys[i].hash() & mask;
        for (; seen[at] != 0; at = (at + 1) & mask) {
            if (keys[seen[at] - 1] == keys[i]) return std::pair{seen[at] - 1, i};
        }
        seen[at] = i + 1;
    }
    return std::nullopt;
}

}  // namespace hicache
