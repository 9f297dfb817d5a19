#include "core/page_history.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "core/errors.h"
#include "core/page_keys.h"

namespace hicache {
namespace {

constexpr auto kFlushed = static_cast<uint32_t>(Loss::kFlushed);
constexpr auto kFailed = static_cast<uint32_t>(Loss::kFailed);

// Keys that are looked for together: the memory of one is on its way while others are looked at.
constexpr size_t kTogether = 32;

int64_t checked(int64_t capacity) {
    if (capacity < 1 || capacity > PageHistory::kMostEntries) {
        bad_argument("A history of ", capacity, " pages; 1 to ", PageHistory::kMostEntries,
                     " can be kept.");
    }
    return capacity;
}

}  // namespace

PageHistory::PageHistory(int64_t capacity)
    : entries_(checked(capacity)),
      buckets_(static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(capacity)))) {}

int64_t PageHistory::bucket(uint64_t key) const {
    return static_cast<int64_t>(key & static_cast<uint64_t>(buckets_.size() - 1));
}

const PageHistory::Entry* PageHistory::find(uint64_t key) const {
    uint32_t slot = buckets_[bucket(key)];
    while (slot != 0) {
        const Entry& entry = entries_[slot - 1];
        if (entry.key == key) return &entry;
        slot = entry.next;
    }
    return nullptr;
}

PageHistory::Entry* PageHistory::find(uint64_t key) {
    return const_cast<Entry*>(std::as_const(*this).find(key));
}

void PageHistory::prefetch(std::span<const uint64_t> keys) const {
    for (const uint64_t key : keys)
        __builtin_prefetch(&buckets_[bucket(key)]);
    for (const uint64_t key : keys) {
        if (const uint32_t slot = buckets_[bucket(key)]) __builtin_prefetch(&entries_[slot - 1]);
    }
}

PageHistory::Entry& PageHistory::find_or_add(uint64_t key) {
    if (Entry* entry = find(key)) {
        entry->again = 1;
        return *entry;
    }
    const uint32_t slot = new_slot();
    Entry& entry = entries_[slot];
    uint32_t& head = buckets_[bucket(key)];
    entry = {.key = key, .epoch = 0, .next = head, .loss = kFlushed, .again = 0};
    head = slot + 1;
    return entry;
}

uint32_t PageHistory::new_slot() {
    if (size_ < capacity()) return static_cast<uint32_t>(size_++);
    const auto advance = [this] {
        const auto slot = static_cast<uint32_t>(hand_);
        hand_ = hand_ + 1 == capacity() ? 0 : hand_ + 1;
        return slot;
    };
    for (int64_t passed = 0; passed < 2 * capacity(); ++passed) {
        const uint32_t slot = advance();
        Entry& entry = entries_[slot];
        if (!is_cached(entry) && entry.again == 0) {
            unlink(slot);
            return slot;
        }
        entry.again = 0;
    }
    const uint32_t slot = advance();  // all are cached: more pages than were announced
    --cached_;
    failing_ -= entries_[slot].loss == kFailed;
    unlink(slot);
    return slot;
}

void PageHistory::unlink(uint32_t slot) {
    const Entry& gone = entries_[slot];
    uint32_t& head = buckets_[bucket(gone.key)];
    if (head == slot + 1) {
        head = gone.next;
        return;
    }
    Entry* before = &entries_[head - 1];
    while (before->next != slot + 1)
        before = &entries_[before->next - 1];
    before->next = gone.next;
}

void PageHistory::enter(std::span<const uint64_t> keys) {
    for (const uint64_t key : keys) {
        Entry& entry = find_or_add(key);
        const bool was = is_cached(entry);
        cached_ += !was;
        failing_ -= was && entry.loss == kFailed;
        entry.epoch = epoch_;
        entry.loss = kFlushed;
    }
}

void PageHistory::leave(std::span<const uint64_t> keys, Loss loss) {
    for (const uint64_t key : keys) {
        Entry& entry = find_or_add(key);
        const bool was = is_cached(entry), failing = was && entry.loss == kFailed;
        cached_ -= was;
        failing_ -= failing;
        entry.epoch = 0;
        if (!failing) entry.loss = static_cast<uint32_t>(loss) & 3;
    }
}

void PageHistory::save_failed(std::span<const uint64_t> keys) {
    for (const uint64_t key : keys) {
        Entry* entry = find(key);
        if (entry == nullptr || !is_cached(*entry)) continue;
        failing_ += entry->loss != kFailed;
        entry->loss = kFailed;
    }
}

void PageHistory::saved(std::span<const uint64_t> keys) {
    if (failing_ == 0) return;
    for (const uint64_t key : keys) {
        Entry* entry = find(key);
        if (entry == nullptr || !is_cached(*entry) || entry->loss != kFailed) continue;
        --failing_;
        entry->loss = kFlushed;
    }
}

void PageHistory::never_came(std::span<const uint64_t> keys) {
    for (const uint64_t key : keys) {
        Entry& entry = find_or_add(key);
        if (!is_cached(entry)) entry.loss = kFailed;
    }
}

void PageHistory::flush() {
    ++epoch_;  // 2^32 of them do not happen
    cached_ = failing_ = 0;
}

bool PageHistory::is_cached(uint64_t key) const {
    const Entry* entry = find(key);
    return entry != nullptr && is_cached(*entry);
}

std::optional<Loss> PageHistory::loss(uint64_t key) const {
    const Entry* entry = find(key);
    if (entry == nullptr || is_cached(*entry)) return std::nullopt;
    return static_cast<Loss>(entry->loss);
}

PageHistory::Losses PageHistory::losses(std::span<const int64_t> tokens, int64_t page_size,
                                        uint64_t above) const {
    Losses found;
    const auto size = static_cast<size_t>(page_size);
    std::array<uint64_t, kTogether> keys{};
    size_t together = 1;  // most prompts that miss are cold: their first page says so
    for (size_t left = tokens.size() / size; left > 0; together = kTogether) {
        const auto some = std::span(keys).first(std::min(left, together));
        page_keys(tokens.first(some.size() * size), page_size, above, some);
        prefetch(some);
        for (const uint64_t key : some) {
            const std::optional<Loss> why = loss(key);
            if (!why) return found;
            ++(*why == Loss::kEvicted   ? found.evicted
               : *why == Loss::kFlushed ? found.flushed
                                        : found.failed);
        }
        above = some.back();
        tokens = tokens.subspan(some.size() * size);
        left -= some.size();
    }
    return found;
}

void PageHistory::check() const {
    int64_t chained = 0, cached = 0, failing = 0;
    for (int64_t i = 0; i < buckets_.size(); ++i) {
        for (uint32_t slot = buckets_[i]; slot != 0; slot = entries_[slot - 1].next) {
            const Entry& entry = entries_[slot - 1];
            if (slot > size_ || bucket(entry.key) != i || ++chained > size_) {
                bad_state("history: slot ", slot - 1, " of ", size_, " is in bucket ", i, ".");
            }
            if (find(entry.key) != &entry)
                bad_state("history: key ", entry.key, " is there twice.");
            if (entry.loss > kFailed) bad_state("history: reason ", entry.loss + 0, ".");
            cached += is_cached(entry);
            failing += is_cached(entry) && entry.loss == kFailed;
        }
    }
    if (chained != size_) bad_state("history: ", size_, " entries, ", chained, " can be found.");
    if (cached != cached_) bad_state("history: ", cached_, " cached pages, ", cached, " entries.");
    if (failing != failing_) {
        bad_state("history: ", failing_, " pages whose save failed, ", failing, " entries.");
    }
}

}  // namespace hicache
