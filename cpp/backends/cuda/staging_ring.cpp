#include "backends/cuda/staging_ring.h"

namespace hicache::cuda {

StagingRing::StagingRing(int64_t slot_bytes, int slots)
    : slot_bytes_(slot_bytes), memory_(static_cast<size_t>(slot_bytes) * slots) {
    const auto start = reinterpret_cast<uint64_t>(memory_.get());
    for (int i = 0; i < slots; ++i)
        slots_.push_back({start + static_cast<uint64_t>(i * slot_bytes), {}});
}

StagingRing::Slot& StagingRing::next() {
    Slot& slot = slots_[next_];
    next_ = (next_ + 1) % slots_.size();
    return slot;
}

}  // namespace hicache::cuda
