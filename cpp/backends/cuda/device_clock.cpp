#include "backends/cuda/device_clock.h"

#include <exception>
#include <thread>
#include <utility>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

std::optional<std::chrono::nanoseconds> time_between(const PooledEvent& from,
                                                     const PooledEvent& to) {
    // compute-sanitizer reports who asks for the time of an event that is not complete.
    for (const PooledEvent* event : {&from, &to}) {
        if (!accept(cudaEventQuery(event->get()))) return std::nullopt;
    }
    float milliseconds = 0;
    if (!accept(cudaEventElapsedTime(&milliseconds, from.get(), to.get()))) return std::nullopt;
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double, std::milli>(milliseconds));
}

DeviceClock::DeviceClock(std::shared_ptr<EventPool> events) : events_(std::move(events)) {
    const DeviceScope scope(events_->device());
    int lowest = 0;
    int highest = 0;
    require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "Asking for stream priorities");
    require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest),
            "Creating a stream");
    set(std::chrono::steady_clock::now(), kFirstPatience);
}

DeviceClock::~DeviceClock() {
    const OutsideCapture outside;
    static_cast<void>(accept(cudaStreamDestroy(stream_)));
}

std::optional<DeviceClock::Base> DeviceClock::look(SteadyTime limit) {
    using Clock = std::chrono::steady_clock;
    SteadyTime before = Clock::now();  // it completes later than that
    PooledEvent event = events_->record(stream_);
    for (;;) {
        const SteadyTime asked = Clock::now();
        const cudaError_t status = cudaEventQuery(event.get());
        const SteadyTime after = Clock::now();
        if (accept(status))
            return Base{std::move(event), before + (after - before) / 2, after - before};
        if (status != cudaErrorNotReady || after >= limit) return std::nullopt;
        before = asked;
        std::this_thread::yield();
    }
}

void DeviceClock::set(SteadyTime now, std::chrono::milliseconds patience) {
    const SteadyTime limit = now + patience;
    std::optional<Base> best;
    try {
        for (int i = 0; i < kTries; ++i) {
            auto base = look(limit);
            if (!base) break;
            if (!best || base->width < best->width) best = std::move(base);
        }
    } catch (const std::exception&) {
        // No event, or the device is lost: the old base is better than none.
    }
    set_again_ = now + (best ? std::chrono::nanoseconds(kFresh) : std::chrono::nanoseconds(kRetry));
    if (best) base_ = std::move(best);
}

std::optional<SteadyTime> DeviceClock::time_of(const PooledEvent& event) {
    std::lock_guard lock(mutex_);
    const SteadyTime now = std::chrono::steady_clock::now();
    if (now >= set_again_) set(now, kPatience);
    if (!base_) return std::nullopt;
    const auto since = time_between(base_->event, event);
    if (!since) return std::nullopt;
    return base_->time + *since;
}

}  // namespace hicache::cuda
