// How many streams wait for flags at the moment, over all copies of an engine.
//
// Streams share the GPU's hardware queues. A few that wait for a flag are harmless; with dozens a
// wait could stand in the queue that the copy it waits for comes to, and CUDA cannot see that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace hicache::cuda {

// Thread-safe.
class FlagWaiters {
  public:
    static constexpr size_t kFew = 2;

    // Whether that stream may wait for a flag: it does so already, or there are few others.
    // Counted.
    bool enter(uintptr_t stream) {
        std::lock_guard lock(mutex_);
        if (waiting_.size() >= kFew && !waiting_.contains(stream)) return false;
        ++waiting_[stream];
        return true;
    }
    void leave(uintptr_t stream) {
        std::lock_guard lock(mutex_);
        const auto found = waiting_.find(stream);
        if (--found->second == 0) waiting_.erase(found);
    }

  private:
    std::mutex mutex_;
    std::map<uintptr_t, int> waiting_;  // waits by stream
};

}  // namespace hicache::cuda
