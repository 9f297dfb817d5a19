// Page keys: 64-bit names of pages, chained, so that a key names a page and everything before it.
//
//   key[i] = mix(key[i - 1], tokens of page i),   key[-1] = namespace_key(namespace)
//
// For tables inside a process and for events about pages: fast (some GB/s), equal on every machine
// and for tokens packed in either width. Not cryptographic: whoever chooses tokens can make two
// pages share a key, so nothing that serves bytes may depend on one (see page_hash.h for names
// that prove something).
//
// The mix is the folded product known from wyhash (Wang Yi, public domain): both halves of a
// 64 x 64 -> 128 bit product, one over the other, in four lanes over the tokens as int64 values.
// Constants: bits of the fractions of square roots of primes (the ones that SHA-512 starts with).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "core/packed_tokens.h"

namespace hicache {

// Where the chain of a namespace starts.
[[nodiscard]] uint64_t namespace_key(std::span<const std::byte> name);

// The keys of whole pages: out[i] of page i, the first one behind `above`.
// Requires: out.size() pages of `page_size` tokens are there, page_size > 0.
void page_keys(std::span<const int64_t> tokens, int64_t page_size, uint64_t above,
               std::span<uint64_t> out);
void page_keys(const PackedTokens& tokens, int64_t page_size, uint64_t above,
               std::span<uint64_t> out);

}  // namespace hicache
