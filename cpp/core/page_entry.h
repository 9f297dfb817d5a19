// An entry of a page table, as it lies in a host file. See page_table.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "core/page_table.h"

namespace hicache {

// page_size int64 tokens follow.
struct PageTable::Entry {
    uint64_t seal;  // 0: not published
    uint64_t priority;
    uint64_t generation;  // from here on the seal covers everything
    uint64_t sequence;
    Digest hash;    // of this page and all before it
    Digest before;  // that of the page before, or the namespace's seed
    uint8_t namespace_bytes;
    std::byte name_space[kMostNamespaceBytes];

    [[nodiscard]] std::span<const std::byte> name() const {
        return {name_space, std::min<size_t>(namespace_bytes, kMostNamespaceBytes)};
    }
    [[nodiscard]] std::span<const int64_t> tokens(int64_t page_size) const {
        return {reinterpret_cast<const int64_t*>(this + 1), static_cast<size_t>(page_size)};
    }
};

// 32 bits and their complement: changed by one store, and a damaged one is known as such.
[[nodiscard]] inline uint64_t self_proving(uint32_t value) {
    return value | (static_cast<uint64_t>(~value) << 32);
}
[[nodiscard]] inline bool proves_itself(uint64_t word) {
    return word == self_proving(static_cast<uint32_t>(word));
}

[[nodiscard]] inline uint64_t priority_word(int64_t priority) {
    using Limits = std::numeric_limits<int32_t>;
    const int64_t kept = std::clamp<int64_t>(priority, Limits::min(), Limits::max());
    return self_proving(static_cast<uint32_t>(static_cast<int32_t>(kept)));
}
[[nodiscard]] inline int64_t priority_of(uint64_t word) {
    return static_cast<int32_t>(static_cast<uint32_t>(word));
}

}  // namespace hicache
