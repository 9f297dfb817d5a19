// Where the layers of one copy are, for streams of the device and for the host.
//
// Once our thread has queued a layer there is an event behind it, and streams wait for that. An
// event that is not recorded yet would count as done, so a stream that comes earlier waits for a
// flag in memory, which our stream raises behind the layer. As long as few streams do so: others
// are kept for a moment until our thread has queued the layer, kPatience at most a copy, before
// they wait for a flag too (see FlagWaiters). A flag that nobody waits for is not raised: each
// write costs the stream time.
//
// Thread-safe.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/cuda/event_pool.h"
#include "backends/cuda/flag_slots.h"
#include "backends/cuda/flag_waiters.h"
#include "backends/cuda/stream_waits.h"
#include "transfer/due_time.h"
#include "transfer/stream_gate.h"

namespace hicache::cuda {

class LayerGate : public StreamGate {
  public:
    static constexpr std::chrono::microseconds kPatience{5000};

    // timed: events with times, for waits to be measured; nullptr: they are not. held: above 0
    // while copies of the direction are kept from starting. Requires: the pool's device is current.
    LayerGate(std::shared_ptr<EventPool> events, std::shared_ptr<EventPool> timed,
              std::shared_ptr<FlagWaiters> waiters, std::shared_ptr<const std::atomic<int>> held,
              int layers);
    ~LayerGate() override;

    void check_stream(uintptr_t stream) const override;
    void enqueue_wait(int position, uintptr_t stream) override;

    // For the backend. Requires: the device is current.
    // All bytes of the layers at positions [first, last) are queued on the stream. Each once.
    void layers_queued(int first, int last, cudaStream_t stream);
    // Called by each layers_queued() from now on, once streams know of the layers. nullptr: nobody.
    using OnQueued = std::function<void(int first, int last, cudaStream_t stream)>;
    void on_queued(OnQueued call) { on_queued_ = std::move(call); }
    // Waits on the host until a layer has landed, and returns the first position that did not land
    // with it. due: the copy's end. Requires: it was queued.
    // Throws: std::runtime_error if the work before it failed.
    int wait_landed(int position, const DueTime& due) const;
    // The copy has ended: releases whoever still waits.
    void open();
    [[nodiscard]] StreamWaits& waits() { return waits_; }

  private:
    // The event behind the layer, waiting for it within the patience that is left; or nullptr.
    [[nodiscard]] cudaEvent_t event_soon(int position, std::unique_lock<std::mutex>& lock);

    const std::shared_ptr<EventPool> pool_;
    const std::shared_ptr<FlagWaiters> waiters_;
    const std::shared_ptr<const std::atomic<int>> held_;
    const ProcessMark process_;
    FlagSlot flags_;
    StreamWaits waits_;
    OnQueued on_queued_;  // for the thread that queues
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::chrono::steady_clock::duration patience_{kPatience};
    bool open_ = false;
    std::vector<std::shared_ptr<PooledEvent>> events_;  // by position; none until queued
    std::vector<bool> awaited_;                         // by position; a stream waits for the flag
    std::vector<uintptr_t> entered_;  // streams that were counted as waiters, once a wait
};

}  // namespace hicache::cuda
