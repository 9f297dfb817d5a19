// Names of pages by content: a chain of digests, so that a page's name depends on every token
// before it and on the namespace. Equal on every machine, process and byte order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/blake2b.h"

namespace hicache {

// Start of the chain of one namespace: BLAKE2b-128 over
//   "hicache-nsa page chain v1", then each part as its length (8 bytes, little-endian) and bytes.
// The lengths make the encoding unambiguous: ("a", "bc") and ("ab", "c") differ.
[[nodiscard]] Digest namespace_seed(std::span<const std::byte> format_name,
                                    std::span<const std::byte> extra_key);

// Digest of each whole page: h[i] = BLAKE2b-128(h[i - 1] || tokens of page i, int64 little-endian),
// h[-1] = seed. Tokens after the last whole page do not count.
// Throws: std::invalid_argument for page_size <= 0.
[[nodiscard]] std::vector<Digest> page_hashes(std::span<const int64_t> tokens, int64_t page_size,
                                              const Digest& seed);

}  // namespace hicache
