// Keeps the number of operations that wait in a stream small, over all copies on it. A driver call
// on a full queue blocks, possibly with locks that the engine's own launches need; waiting for an
// event does not.
#pragma once

#include <cuda_runtime_api.h>

#include <deque>
#include <memory>
#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/event_pool.h"

namespace hicache::cuda {

class QueueLimit {
  public:
    static constexpr int kStep = 256;  // operations between two events; 3 steps are in the queue

    QueueLimit(std::shared_ptr<EventPool> events, cudaStream_t stream)
        : events_(std::move(events)), stream_(stream) {}

    // Call after queueing `operations`. Throws: std::runtime_error if work on the stream failed.
    void queued(int operations) {
        since_ += operations;
        if (since_ < kStep) return;
        since_ = 0;
        marks_.push_back(events_->record(stream_));
        if (marks_.size() < 3) return;
        marks_.front().wait("A copy on the GPU");
        marks_.pop_front();
    }

  private:
    const std::shared_ptr<EventPool> events_;
    const cudaStream_t stream_;
    std::deque<PooledEvent> marks_;
    int since_ = 0;
};

}  // namespace hicache::cuda
