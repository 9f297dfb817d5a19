// Times on the device: between two events, and as times of the host's steady clock.
//
// Events know only how long it is from one to another, in a float: over seconds that is coarse, and
// the device's clock runs a little faster or slower than the host's. So an event that the host saw
// complete is kept as a base, and replaced after a moment.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "backends/cuda/event_pool.h"
#include "core/waiting.h"

namespace hicache::cuda {

// Of an EventPool with times: the time from one event to another, below 0 if `to` was first, with a
// resolution of about half a microsecond. nullopt: one of them is not complete, or CUDA does not
// say. Requires: the device is current; both were recorded.
[[nodiscard]] std::optional<std::chrono::nanoseconds> time_between(const PooledEvent& from,
                                                                   const PooledEvent& to);

// Thread-safe.
class DeviceClock {
  public:
    // events: with times. The clock is set at once: an old base is there if it cannot be set later.
    // Throws: std::runtime_error if CUDA refuses a stream.
    explicit DeviceClock(std::shared_ptr<EventPool> events);
    ~DeviceClock();
    DeviceClock(const DeviceClock&) = delete;
    DeviceClock& operator=(const DeviceClock&) = delete;

    // When the event completed, to some microseconds; the distance of two events is finer by
    // time_between(). nullopt: as there, or the clock could not be set. At times it is set anew,
    // which takes some tens of microseconds, and kPatience at most. Requires: as there.
    [[nodiscard]] std::optional<SteadyTime> time_of(const PooledEvent& event);

  private:
    static constexpr std::chrono::milliseconds kFresh{250};  // a clock 20 ppm off is 5 us off then
    static constexpr std::chrono::milliseconds kPatience{20};
    static constexpr std::chrono::milliseconds kFirstPatience{1000};  // no copy waits for it
    static constexpr std::chrono::seconds kRetry{1};
    static constexpr int kTries = 3;

    struct Base {
        PooledEvent event;
        SteadyTime time;  // when it completed, give or take half of ...
        SteadyTime::duration width;
    };
    // An event now; nullopt if it takes too long. Requires, both: the mutex is held.
    [[nodiscard]] std::optional<Base> look(SteadyTime limit);
    void set(SteadyTime now, std::chrono::milliseconds patience);

    const std::shared_ptr<EventPool> events_;
    cudaStream_t stream_ = nullptr;  // of its own: nothing waits on it
    std::mutex mutex_;
    std::optional<Base> base_;
    SteadyTime set_again_{};  // from then on
};

}  // namespace hicache::cuda
