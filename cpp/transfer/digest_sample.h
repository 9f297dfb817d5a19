// Which pages and layers of a copy have their digests compared.
#pragma once

#include <cstdint>

#include "core/page_digest.h"

namespace hicache {

enum class Verify {
    kOff,
    kSample,  // loads compare about one (page, layer) in 16, others each time
    kAll,
};

// Pure, and the same on the host and on a GPU.
struct DigestSample {
    uint64_t copy;  // number of the copy in its direction
    bool all;

    [[nodiscard]] HICACHE_BOTH_SIDES constexpr bool has(int64_t host_page, int layer) const {
        if (all) return true;
        const uint64_t key =
            (static_cast<uint64_t>(host_page) << 20) ^ static_cast<uint64_t>(layer) ^ (copy << 44);
        return digest_share(key, copy * kDigestStep) >> 60 == 0;
    }
};

}  // namespace hicache
