#include "backends/cuda/pinned_regions.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"

namespace hicache {

PinnedRegions::PinnedRegions(std::byte* begin, int64_t bytes, int64_t chunk_bytes,
                             Registrar registrar)
    : registrar_(std::move(registrar)) {
    try {
        for (int64_t at = 0; at < bytes && !refusal_; at += chunk_bytes) {
            std::byte* const chunk = begin + at;
            const int64_t size = std::min(chunk_bytes, bytes - at);
            std::string text;
            const PinResult result = registrar_.pin(chunk, size, text);
            if (result == PinResult::kPinned) ours_.emplace_back(chunk, size);
            if (result == PinResult::kRefused) {
                refusal_ = message("Pinning ", size, " bytes at ", static_cast<void*>(chunk),
                                   " (chunk ", at / chunk_bytes + 1, " of ",
                                   (bytes + chunk_bytes - 1) / chunk_bytes, ") failed: ", text);
            }
        }
    } catch (...) {
        unpin_all();
        throw;
    }
    if (refusal_) unpin_all();
}

PinnedRegions::~PinnedRegions() {
    unpin_all();
}

void PinnedRegions::unpin_all() {
    for (auto chunk = ours_.rbegin(); chunk != ours_.rend(); ++chunk)
        registrar_.unpin(chunk->first, chunk->second);
    ours_.clear();
}

}  // namespace hicache
