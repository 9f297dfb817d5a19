#include "core/pinned_chunks.h"

#include <algorithm>
#include <utility>

#include "core/errors.h"

namespace hicache {

PinnedChunks::PinnedChunks(std::byte* begin, int64_t bytes, int64_t chunk_bytes,
                           Registrar registrar, bool required)
    : begin_(begin),
      bytes_(bytes),
      chunk_bytes_(chunk_bytes),
      registrar_(std::move(registrar)),
      required_(required),
      states_(static_cast<size_t>(num_chunks())) {
    ours_.reserve(states_.size());
}

PinnedChunks::~PinnedChunks() {
    unpin_all();
}

int64_t PinnedChunks::next_end() const {
    return std::min(done_bytes() + chunk_bytes_, bytes_);
}

std::string PinnedChunks::refused(int64_t chunk, int64_t size, const std::string& text) const {
    return message("Pinning ", size, " bytes at ",
                   static_cast<void*>(begin_ + chunk * chunk_bytes_), " (chunk ", chunk + 1, " of ",
                   num_chunks(), ") failed: ", text);
}

void PinnedChunks::pin_next() {
    const int64_t at = done_bytes();
    const int64_t end = next_end();
    const int64_t chunk = at / chunk_bytes_;
    std::string text;
    const PinResult result = registrar_.pin(begin_ + at, end - at, text);
    if (result == PinResult::kRefused) {
        std::string reason = refused(chunk, end - at, text);
        if (required_) bad_state(reason);
        std::lock_guard lock(mutex_);
        if (!refusal_) refusal_ = std::move(reason);
    }
    if (result == PinResult::kPinned) ours_.emplace_back(begin_ + at, end - at);
    const bool pinned = result != PinResult::kRefused;
    states_[static_cast<size_t>(chunk)].store(pinned ? kPinned : kPageable,
                                              std::memory_order_release);
    (pinned ? pinned_bytes_ : pageable_bytes_).fetch_add(end - at, std::memory_order_release);
    done_.store(end, std::memory_order_release);
}

bool PinnedChunks::pinned(int64_t offset, int64_t bytes) const {
    if (pinned_bytes() == bytes_ || bytes <= 0) return true;
    for (int64_t chunk = offset / chunk_bytes_; chunk <= (offset + bytes - 1) / chunk_bytes_;
         ++chunk) {
        if (states_[static_cast<size_t>(chunk)].load(std::memory_order_acquire) != kPinned)
            return false;
    }
    return true;
}

std::optional<std::string> PinnedChunks::refusal() const {
    std::lock_guard lock(mutex_);
    return refusal_;
}

void PinnedChunks::unpin_all() {
    pinned_bytes_ = 0;
    for (auto& state : states_)
        state.store(kOpen, std::memory_order_release);
    for (auto chunk = ours_.rbegin(); chunk != ours_.rend(); ++chunk)
        registrar_.unpin(chunk->first, chunk->second);
    ours_.clear();
}

}  // namespace hicache
