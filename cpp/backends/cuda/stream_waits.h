// How long streams really waited for the layers of one copy, by events on the device.
//
// An event in front of a wait keeps when its stream came there, another one behind the layers when
// they had landed. Nobody waits for either: what was waited is known once the layers have landed. A
// stream that has not come to its wait by then did not wait.
//
// Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/event_pool.h"

namespace hicache::cuda {

class StreamWaits {
  public:
    // Beyond so many that are not over, waits of a copy are not measured.
    static constexpr size_t kMostWaits = 4096;

    struct Wait {
        int position;
        uintptr_t stream;
        PooledEvent arrival;
        std::shared_ptr<PooledEvent> landed;  // nullptr: the layer was never queued
    };

    // events: with times; nullptr: nothing is measured.
    StreamWaits(std::shared_ptr<EventPool> events, int layers)
        : events_(std::move(events)), landed_(static_cast<size_t>(layers)) {}

    [[nodiscard]] const std::shared_ptr<EventPool>& events() const { return events_; }

    // The stream is about to wait for the layer at that position. Costs an event, unless the stream
    // waits for layers already with or behind which that one lands. Never throws. Requires: the
    // device is current; no lock is held that whoever queues layers needs, since this may block
    // while the stream's queue is full.
    void arrive(int position, uintptr_t stream) noexcept;
    // The layers at [first, last) are queued, and the event behind them. Each once.
    void queued(int first, int last, const std::shared_ptr<PooledEvent>& landed);
    // The event behind that layer; nullptr if it is not queued or nothing is measured.
    [[nodiscard]] std::shared_ptr<PooledEvent> landed(int position);
    // The waits for layers at [first, last); they are not kept here any more.
    [[nodiscard]] std::vector<Wait> take(int first, int last);
    // All that are left; from now on nothing is measured.
    [[nodiscard]] std::vector<Wait> end();

  private:
    // Whether a wait of the stream that was noted before will take at least as long; notes this
    // one. Requires: the mutex is held.
    [[nodiscard]] bool covered(int position, uintptr_t stream);

    const std::shared_ptr<EventPool> events_;
    std::mutex mutex_;
    bool ended_ = false;
    std::vector<std::shared_ptr<PooledEvent>> landed_;  // by position
    std::vector<std::pair<uintptr_t, int>> furthest_;   // position that each stream waits for
    std::vector<Wait> waits_;
};

}  // namespace hicache::cuda
