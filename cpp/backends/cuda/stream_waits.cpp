#include "backends/cuda/stream_waits.h"

#include <algorithm>
#include <exception>
#include <iterator>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

bool StreamWaits::covered(int position, uintptr_t stream) {
    // Another stream in each thread.
    if (stream_of(stream) == cudaStreamPerThread) return false;
    const auto known = std::ranges::find(furthest_, stream, &std::pair<uintptr_t, int>::first);
    if (known == furthest_.end()) {
        furthest_.emplace_back(stream, position);
        return false;
    }
    const int before = known->second;
    known->second = std::max(before, position);
    return before >= position || (landed_[position] && landed_[position] == landed_[before]);
}

void StreamWaits::arrive(int position, uintptr_t stream) noexcept {
    if (!events_) return;
    try {
        {
            std::lock_guard lock(mutex_);
            if (ended_ || waits_.size() >= kMostWaits || covered(position, stream)) return;
        }
        PooledEvent arrival = events_->record(stream_of(stream));
        std::lock_guard lock(mutex_);
        if (!ended_) waits_.push_back({position, stream, std::move(arrival), nullptr});
    } catch (const std::exception&) {
        // What stands in the way of the wait itself is said by the wait.
    }
}

void StreamWaits::queued(int first, int last, const std::shared_ptr<PooledEvent>& landed) {
    std::lock_guard lock(mutex_);
    std::fill(landed_.begin() + first, landed_.begin() + last, landed);
}

std::shared_ptr<PooledEvent> StreamWaits::landed(int position) {
    std::lock_guard lock(mutex_);
    return landed_[position];
}

std::vector<StreamWaits::Wait> StreamWaits::take(int first, int last) {
    std::vector<Wait> taken;
    std::lock_guard lock(mutex_);
    const auto rest = std::stable_partition(waits_.begin(), waits_.end(), [&](const Wait& wait) {
        return wait.position < first || wait.position >= last;
    });
    taken.assign(std::make_move_iterator(rest), std::make_move_iterator(waits_.end()));
    waits_.erase(rest, waits_.end());
    for (Wait& wait : taken)
        wait.landed = landed_[wait.position];
    return taken;
}

std::vector<StreamWaits::Wait> StreamWaits::end() {
    {
        std::lock_guard lock(mutex_);
        ended_ = true;
    }
    auto left = take(0, static_cast<int>(landed_.size()));
    std::lock_guard lock(mutex_);
    landed_.clear();
    return left;
}

}  // namespace hicache::cuda
