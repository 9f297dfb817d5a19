// A page table beside the pages that it speaks of, and what a kill at any store would leave.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/page_table.h"

namespace hicache {

inline constexpr int64_t kTestPages = 12;
inline constexpr int64_t kTestPageSize = 3;
inline const std::string kTestFingerprint = "a format";

using Prefix = std::pair<std::string, std::vector<int64_t>>;  // namespace, all tokens up to here

// Everything that outlives the process: table, generation, and for each page what its bytes are.
struct Image {
    std::vector<uint64_t> words;
    uint64_t generation = PageTable::first_generation();
    std::vector<Prefix> bytes = std::vector<Prefix>(kTestPages);

    Image() : words(kTestPages * PageTable::entry_bytes(kTestPageSize) / 8) {}

    [[nodiscard]] std::byte* entries() { return reinterpret_cast<std::byte*>(words.data()); }
    [[nodiscard]] PageTable table() {
        return {entries(), &generation, kTestPages, kTestPageSize, kTestFingerprint};
    }
};

// What is restored, by page; and how many pages were damaged.
struct Found {
    std::map<int64_t, Prefix> pages;
    Restored restored;
};

inline Found restore(Image& image) {
    PageTable table = image.table();
    Found found{{}, table.restore()};
    std::vector<std::vector<int64_t>> upto;
    for (const RestoredNode& node : found.restored.nodes) {
        std::vector<int64_t> tokens;
        if (node.parent >= 0) tokens = upto[static_cast<size_t>(node.parent)];
        for (int64_t i = node.first; i < node.first + node.size; ++i) {
            const auto* first = found.restored.tokens.data() + i * kTestPageSize;
            tokens.insert(tokens.end(), first, first + kTestPageSize);
            const std::string& name = found.restored.namespaces[static_cast<size_t>(node.root)];
            found.pages.emplace(found.restored.pages[static_cast<size_t>(i)], Prefix{name, tokens});
        }
        upto.push_back(tokens);
    }
    return found;
}

inline std::span<const std::byte> bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

}  // namespace hicache
