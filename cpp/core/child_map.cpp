#include "core/child_map.h"

#include <algorithm>
#include <utility>

namespace hicache {

const ChildMap::Part& ChildMap::part_of(uint64_t hash) const {
    const Part* part = &top_;
    for (; part->parts; hash >>= kBits)
        part = &(*part->parts)[hash % kFan];
    return *part;
}

ChildMap::Entry* ChildMap::entry_of(uint64_t hash, void* child) {
    auto& entries = const_cast<Part&>(part_of(hash)).entries;
    const auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& entry) {
        return entry.hash == hash && entry.child == child;
    });
    return it == entries.end() ? nullptr : &*it;
}

void ChildMap::divide(Part& part, int level) {
    part.parts = std::make_unique<std::array<Part, kFan>>();
    for (const Entry& entry : part.entries)
        (*part.parts)[(entry.hash >> (level * kBits)) % kFan].entries.push_back(entry);
    part.entries = {};
}

void ChildMap::add(uint64_t hash, void* child) {
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
    if (entries.size() == entries.capacity())
        entries.reserve(entries.size() + entries.size() / 2 + 1);
    entries.push_back({hash, next_number_++, child});
    ++size_;
}

bool ChildMap::remove(uint64_t hash, void* child) {
    Entry* entry = entry_of(hash, child);
    if (entry == nullptr) return false;
    auto& entries = const_cast<Part&>(part_of(hash)).entries;
    *entry = entries.back();
    entries.pop_back();
    if (entries.empty()) entries = {};
    if (--size_ == 0) clear();
    return true;
}

bool ChildMap::replace(uint64_t hash, void* child, void* by) {
    Entry* entry = entry_of(hash, child);
    if (entry == nullptr) return false;
    entry->child = by;
    return true;
}

std::vector<void*> ChildMap::children() const {
    std::vector<std::pair<uint64_t, void*>> numbered;
    numbered.reserve(size_);
    std::vector<const Part*> stack{&top_};
    while (!stack.empty()) {
        const Part* part = stack.back();
        stack.pop_back();
        for (const Entry& entry : part->entries)
            numbered.emplace_back(entry.number, entry.child);
        if (part->parts) {
            for (const Part& below : *part->parts)
                stack.push_back(&below);
        }
    }
    std::sort(numbered.begin(), numbered.end());
    std::vector<void*> result;
    result.reserve(numbered.size());
    for (const auto& [number, child] : numbered)
        result.push_back(child);
    return result;
}

void ChildMap::clear() {
    top_ = {};
    size_ = 0;
}

}  // namespace hicache
