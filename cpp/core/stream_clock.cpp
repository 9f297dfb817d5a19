#include "core/stream_clock.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "core/errors.h"
#include "core/process.h"
#include "core/waiting.h"

namespace hicache {

struct StreamClock::Clock {
    ProcessMark process;
    std::mutex mutex;
    std::condition_variable changed;
    int64_t submitted = 0;
    std::atomic<int64_t> completed{0};
};

class StreamClock::Point : public Fence {
  public:
    Point(std::shared_ptr<Clock> clock, int64_t value) : clock_(std::move(clock)), value_(value) {}

    bool done() const override {
        return clock_->completed.load(std::memory_order_acquire) >= value_;
    }

    bool wait(Timeout timeout) const override {
        if (done()) return true;
        clock_->process.require_same("fence");
        std::unique_lock lock(clock_->mutex);
        return wait_until_ready(clock_->changed, lock, timeout, [this] { return done(); });
    }

  private:
    const std::shared_ptr<Clock> clock_;
    const int64_t value_;
};

StreamClock::StreamClock() : clock_(std::make_shared<Clock>()) {}

int64_t StreamClock::submit() {
    clock_->process.require_same("stream clock");
    std::lock_guard lock(clock_->mutex);
    return ++clock_->submitted;
}

void StreamClock::complete(int64_t value) {
    clock_->process.require_same("stream clock");
    {
        std::lock_guard lock(clock_->mutex);
        const int64_t completed = clock_->completed.load(std::memory_order_relaxed);
        if (value <= completed || value > clock_->submitted) {
            bad_argument("Cannot complete ", value, ": submitted up to ", clock_->submitted,
                         ", complete up to ", completed, ".");
        }
        clock_->completed.store(value, std::memory_order_release);
    }
    clock_->changed.notify_all();
}

FencePtr StreamClock::fence() const {
    clock_->process.require_same("stream clock");
    std::lock_guard lock(clock_->mutex);
    return std::make_shared<Point>(clock_, clock_->submitted);
}

}  // namespace hicache
