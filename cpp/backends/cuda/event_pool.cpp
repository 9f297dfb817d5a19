#include "backends/cuda/event_pool.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

PooledEvent::PooledEvent(std::shared_ptr<EventPool> pool, cudaEvent_t event)
    : pool_(std::move(pool)), event_(event) {}

PooledEvent::~PooledEvent() {
    if (event_ != nullptr) pool_->give_back(event_);
}

PooledEvent::PooledEvent(PooledEvent&& other) noexcept
    : pool_(std::move(other.pool_)), event_(std::exchange(other.event_, nullptr)) {}

PooledEvent& PooledEvent::operator=(PooledEvent&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(event_, other.event_);
    return *this;
}

void PooledEvent::wait(const char* what, const DueTime* due) const {
    using Clock = std::chrono::steady_clock;
    using std::chrono::microseconds;
    const auto started = Clock::now();
    for (;;) {
        const cudaError_t status = cudaEventQuery(event_);
        if (status != cudaErrorNotReady) return require(status, what);
        static_cast<void>(cudaGetLastError());
        const SteadyTime now = Clock::now();
        if (due != nullptr && due->awaited() && due->is_near(now)) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::clamp<Clock::duration>(
                (now - started) / 32, microseconds(4), microseconds(50)));
        }
    }
}

EventPool::~EventPool() {
    if (process_.forked()) return;
    const OutsideCapture outside;
    for (cudaEvent_t event : idle_)
        static_cast<void>(accept(cudaEventDestroy(event)));
}

PooledEvent EventPool::record(cudaStream_t stream) {
    cudaEvent_t event = nullptr;
    {
        std::lock_guard lock(mutex_);
        if (!idle_.empty()) {
            event = idle_.back();
            idle_.pop_back();
        }
    }
    if (event == nullptr) {
        require(cudaEventCreateWithFlags(&event, flags_), "cudaEventCreate");
    }
    PooledEvent held(shared_from_this(), event);
    require(cudaEventRecord(event, stream), "Recording an event on stream ", stream);
    return held;
}

void EventPool::give_back(cudaEvent_t event) noexcept {
    if (process_.forked()) return;  // the lock may be held there for ever
    std::lock_guard lock(mutex_);
    idle_.push_back(event);
}

bool EventFence::done() const {
    process_.require_same("fence");
    const DeviceScope scope(device_);
    const cudaError_t status = cudaEventQuery(event_.get());
    if (status == cudaErrorNotReady) {
        static_cast<void>(cudaGetLastError());
        return false;
    }
    require(status, "Work of an engine's stream");
    return true;
}

bool EventFence::wait(Timeout timeout) const {
    using Clock = std::chrono::steady_clock;
    constexpr auto kLook = std::chrono::microseconds(100);
    const auto started = Clock::now();
    while (!done()) {
        const std::chrono::duration<double> waited = Clock::now() - started;
        if (timeout && !(waited.count() < *timeout)) return false;
        std::this_thread::sleep_for(kLook);
    }
    return true;
}

}  // namespace hicache::cuda
