#include "backends/cuda/staging_ring.h"

namespace hicache::cuda {

StagingRing::StagingRing(int64_t bay_bytes, int bays)
    : bay_bytes_(bay_bytes), memory_(static_cast<size_t>(bay_bytes) * bays) {
    const auto start = reinterpret_cast<uint64_t>(memory_.get());
    for (int i = 0; i < bays; ++i)
        bays_.push_back({start + static_cast<uint64_t>(i * bay_bytes), {}});
}

StagingRing::Bay& StagingRing::next() {
    Bay& bay = bays_[next_];
    next_ = (next_ + 1) % bays_.size();
    return bay;
}

}  // namespace hicache::cuda
