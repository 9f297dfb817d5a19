#include "tests/cuda/registered_memory.h"

#include <iterator>

namespace hicache::testing_support {
namespace {

const std::byte* end_of(const RegisteredMemory::Range& range) {
    return range.first + range.second;
}

}  // namespace

RegisteredMemory& RegisteredMemory::all() {
    static auto* const all = new RegisteredMemory;
    return *all;
}

bool RegisteredMemory::add(const void* begin, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(begin);
    std::lock_guard lock(mutex_);
    const auto next = ranges_.lower_bound(first);
    if (next != ranges_.end() && next->first < first + bytes) return false;
    if (next != ranges_.begin() && end_of(*std::prev(next)) > first) return false;
    ranges_.emplace(first, bytes);
    return true;
}

bool RegisteredMemory::remove(const void* begin) {
    std::lock_guard lock(mutex_);
    return ranges_.erase(static_cast<const std::byte*>(begin)) > 0;
}

std::optional<RegisteredMemory::Range> RegisteredMemory::around(const void* address) const {
    const auto* const at = static_cast<const std::byte*>(address);
    std::lock_guard lock(mutex_);
    const auto next = ranges_.upper_bound(at);
    if (next == ranges_.begin()) return std::nullopt;
    const Range range = *std::prev(next);
    if (end_of(range) <= at) return std::nullopt;
    return range;
}

std::vector<RegisteredMemory::Range> RegisteredMemory::ranges() const {
    std::lock_guard lock(mutex_);
    return {ranges_.begin(), ranges_.end()};
}

bool RegisteredMemory::crosses_no_border(const void* begin, size_t bytes) const {
    const auto* const first = static_cast<const std::byte*>(begin);
    if (const auto range = around(begin)) return end_of(*range) >= first + bytes;
    std::lock_guard lock(mutex_);
    const auto next = ranges_.upper_bound(first);
    return next == ranges_.end() || next->first >= first + bytes;
}

}  // namespace hicache::testing_support
