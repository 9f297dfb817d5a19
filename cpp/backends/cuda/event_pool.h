// CUDA events that are used again, and fences made of them.
//
// Events of a pool belong to one device. Thread-safe; pools are shared, so that events may outlive
// the backend that made them.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "core/fence.h"
#include "core/process.h"
#include "transfer/due_time.h"

namespace hicache::cuda {

class EventPool;

// An event, given back to its pool at the end. Movable.
class PooledEvent {
  public:
    PooledEvent() = default;
    PooledEvent(std::shared_ptr<EventPool> pool, cudaEvent_t event);
    ~PooledEvent();
    PooledEvent(PooledEvent&& other) noexcept;
    PooledEvent& operator=(PooledEvent&& other) noexcept;

    [[nodiscard]] cudaEvent_t get() const { return event_; }
    // Waits on the host by looking now and then; no event of ours interrupts the host, since a
    // stream stands still meanwhile. due: without sleep, while it is near and somebody waits for
    // that copy. Requires: the device is current; it was recorded.
    // Throws: std::runtime_error that begins with `what` if the work before it failed.
    void wait(const char* what, const DueTime* due = nullptr) const;
    [[nodiscard]] explicit operator bool() const { return event_ != nullptr; }

  private:
    std::shared_ptr<EventPool> pool_;
    cudaEvent_t event_ = nullptr;
};

class EventPool : public std::enable_shared_from_this<EventPool> {
  public:
    // with_times: its events keep when they completed; that may take the streams longer.
    explicit EventPool(int device, bool with_times = false)
        : device_(device), flags_(with_times ? cudaEventDefault : cudaEventDisableTiming) {}
    ~EventPool();
    EventPool(const EventPool&) = delete;
    EventPool& operator=(const EventPool&) = delete;

    [[nodiscard]] int device() const { return device_; }

    // An event recorded on the stream. Requires: the device is current.
    // Throws: std::runtime_error if CUDA refuses.
    [[nodiscard]] PooledEvent record(cudaStream_t stream);

  private:
    friend class PooledEvent;
    void give_back(cudaEvent_t event) noexcept;

    const int device_;
    const unsigned flags_;
    const ProcessMark process_;
    std::mutex mutex_;
    std::vector<cudaEvent_t> idle_;
};

// A fence on a stream of the device; copies wait for it there, not on the host.
class EventFence : public Fence {
  public:
    EventFence(int device, PooledEvent event) : device_(device), event_(std::move(event)) {}

    [[nodiscard]] bool done() const override;
    bool wait(Timeout timeout) const override;
    [[nodiscard]] cudaEvent_t event() const { return event_.get(); }

  private:
    const int device_;
    const ProcessMark process_;
    const PooledEvent event_;
};

}  // namespace hicache::cuda
