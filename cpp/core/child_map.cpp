#include "core/child_map.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace hicache {

const ChildMap::Part& ChildMap::part_of(uint32_t hash) const {
    const Part* part = &top_;
    for (; part->parts; hash >>= kBits)
        part = &(*part->parts)[hash % kFan];
    return *part;
}

ChildMap::Entry* ChildMap::entry_of(uint32_t hash, void* child) {
    auto& entries = const_cast<Part&>(part_of(hash)).entries;
    const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
        return entry.hash == hash && slot(entry.slot).child == child;
    });
    return it == entries.end() ? nullptr : &*it;
}

void ChildMap::divide(Part& part, int level) {
    part.parts = std::make_unique<std::array<Part, kFan>>();
    for (const Entry& entry : part.entries)
        (*part.parts)[(entry.hash >> (level * kBits)) % kFan].entries.push_back(entry);
    part.entries = {};
}

ChildMap::Slot& ChildMap::slot(uint32_t index) const {
    const uint64_t place = uint64_t{index} + 1;
    const int block = std::bit_width(place) - 1;
    return blocks_[static_cast<size_t>(block)][place - (uint64_t{1} << block)];
}

uint32_t ChildMap::new_slot() {
    if (free_ != kNone) return std::exchange(free_, slot(free_).after);
    if (slots_ == kNone) throw std::length_error("A node has too many children.");
    const uint64_t place = uint64_t{slots_} + 1;
    if (std::has_single_bit(place)) {
        blocks_.push_back(std::make_unique_for_overwrite<Slot[]>(static_cast<size_t>(place)));
    }
    return slots_++;
}

void ChildMap::add(uint32_t hash, void* child) {
    if (size_ == 0 && blocks_.empty()) {
        only_ = child;
        only_hash_ = hash;
    } else {
        if (has_only()) add_to_parts(only_hash_, std::exchange(only_, nullptr));
        add_to_parts(hash, child);
    }
    ++size_;
}

void ChildMap::add_to_parts(uint32_t hash, void* child) {
    Part* part = &top_;
    int level = 0;
    const auto descend = [&] {
        for (; part->parts; ++level)
            part = &(*part->parts)[(hash >> (level * kBits)) % kFan];
    };
    descend();
    while (part->entries.size() >= kFull && level < kLevels) {
        divide(*part, level);
        descend();
    }
    auto& entries = part->entries;
    if (entries.size() == entries.capacity()) {
        entries.reserve(entries.size() + entries.size() / 2 + 1);
    }
    const uint32_t index = new_slot();
    slot(index) = {child, hash, last_, kNone};
    (last_ == kNone ? first_ : slot(last_).after) = index;
    last_ = index;
    entries.push_back({hash, index});
}

bool ChildMap::remove(uint32_t hash, void* child) {
    if (has_only()) {
        if (only_hash_ != hash || only_ != child) return false;
        only_ = nullptr;
        size_ = 0;
        return true;
    }
    Entry* entry = entry_of(hash, child);
    if (entry == nullptr) return false;
    const uint32_t index = entry->slot;
    auto& entries = const_cast<Part&>(part_of(hash)).entries;
    *entry = entries.back();
    entries.pop_back();
    if (entries.empty()) entries = {};
    Slot& gone = slot(index);
    (gone.before == kNone ? first_ : slot(gone.before).after) = gone.after;
    (gone.after == kNone ? last_ : slot(gone.after).before) = gone.before;
    gone.after = free_;
    free_ = index;
    --size_;
    return true;
}

bool ChildMap::replace(uint32_t hash, void* child, void* by) {
    if (has_only()) {
        if (only_hash_ != hash || only_ != child) return false;
        only_ = by;
        return true;
    }
    const Entry* entry = entry_of(hash, child);
    if (entry == nullptr) return false;
    slot(entry->slot).child = by;
    return true;
}

void* ChildMap::pop() {
    if (has_only()) {
        size_ = 0;
        return std::exchange(only_, nullptr);
    }
    const Slot last = slot(last_);
    remove(last.hash, last.child);
    return last.child;
}

std::vector<void*> ChildMap::children() const {
    if (has_only()) return {only_};
    std::vector<void*> result;
    result.reserve(size_);
    for (uint32_t index = first_; index != kNone; index = slot(index).after)
        result.push_back(slot(index).child);
    return result;
}

void ChildMap::clear() {
    *this = ChildMap();
}

}  // namespace hicache
