#include "core/page_hash.h"

#include <bit>
#include <string_view>

#include "core/errors.h"

namespace hicache {
namespace {

void add_integer(Blake2b& hash, uint64_t value) {
    if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
    hash.update(std::as_bytes(std::span(&value, 1)));
}

void add_part(Blake2b& hash, std::span<const std::byte> part) {
    add_integer(hash, part.size());
    hash.update(part);
}

void add_tokens(Blake2b& hash, std::span<const int64_t> tokens) {
    if constexpr (std::endian::native == std::endian::little) {
        hash.update(std::as_bytes(tokens));
    } else {
        for (const int64_t token : tokens)
            add_integer(hash, static_cast<uint64_t>(token));
    }
}

}  // namespace

Digest namespace_seed(std::span<const std::byte> format_name,
                      std::span<const std::byte> extra_key) {
    constexpr std::string_view kDomain = "hicache-nsa page chain v1";
    Blake2b hash(sizeof(Digest));
    hash.update(std::as_bytes(std::span(kDomain)));
    add_part(hash, format_name);
    add_part(hash, extra_key);
    Digest seed;
    hash.finish(seed);
    return seed;
}

std::vector<Digest> page_hashes(std::span<const int64_t> tokens, int64_t page_size,
                                const Digest& seed) {
    if (page_size <= 0) bad_argument("page_size is ", page_size, "; it must be positive.");
    const size_t size = static_cast<size_t>(page_size);
    std::vector<Digest> hashes(tokens.size() / size);
    const Digest* previous = &seed;
    for (size_t i = 0; i < hashes.size(); ++i) {
        Blake2b hash(sizeof(Digest));
        hash.update(*previous);
        add_tokens(hash, tokens.subspan(i * size, size));
        hash.finish(hashes[i]);
        previous = &hashes[i];
    }
    return hashes;
}

}  // namespace hicache
