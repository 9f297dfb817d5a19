// When a copy should have landed, and whether somebody waits for that.
//
// To be woken takes a thread tens of microseconds, which is much of a copy of a few pages. So who
// waits sleeps until shortly before, and then looks again and again for a moment. The thread that
// sees copies land does the same, as long as somebody waits.
//
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>

#include "core/waiting.h"

namespace hicache {

class DueTime {
  public:
    using Duration = SteadyTime::duration;

    // The copy should land at `end`, having taken that long. Once.
    void set(SteadyTime end, Duration takes) {
        using std::chrono::microseconds;
        const auto off =
            std::clamp<Duration>(takes / kPartOff, microseconds(kLeastOff), microseconds(kMostOff));
        until_.store(ticks(end + off), std::memory_order_relaxed);
        from_.store(ticks(end - off), std::memory_order_release);
    }

    // From then on it is worth looking without sleep; long ago if it was not set.
    [[nodiscard]] SteadyTime from() const { return time(from_.load(std::memory_order_acquire)); }
    [[nodiscard]] bool is_near(SteadyTime now) const {
        return now >= from() && now < time(until_.load(std::memory_order_relaxed));
    }
    [[nodiscard]] bool awaited() const { return waiting_.load(std::memory_order_relaxed) > 0; }

    // Counts a thread that waits, as long as it lives.
    class Waiting {
      public:
        explicit Waiting(DueTime& due) : due_(due) { ++due_.waiting_; }
        ~Waiting() { --due_.waiting_; }
        Waiting(const Waiting&) = delete;
        Waiting& operator=(const Waiting&) = delete;

      private:
        DueTime& due_;
    };

  private:
    // How wrong the planner may be: a part of the copy, or microseconds.
    static constexpr int kPartOff = 6;
    static constexpr int kLeastOff = 40;
    static constexpr int kMostOff = 200;

    static int64_t ticks(SteadyTime time) { return time.time_since_epoch().count(); }
    static SteadyTime time(int64_t ticks) { return SteadyTime(Duration(ticks)); }

    std::atomic<int64_t> from_{0};
    std::atomic<int64_t> until_{0};
    std::atomic<int> waiting_{0};
};

}  // namespace hicache
