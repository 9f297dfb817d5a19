// Streams and events of the stand-in: see stand_in.h.
//
// A queue has no lock that both sides take: all that orders one thread's bytes before another's is
// what CUDA orders too, so that the thread sanitizer sees an order that is missing.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <random>

namespace hicache::testing_support {

// One recording of an event.
struct Mark {
    std::atomic<bool> reached{false};
    std::chrono::steady_clock::time_point when{};  // valid once reached

    void reach();
    void wait() const;
};

// Looks again and again, ever more seldom, until `ready` says so.
void look_until(const std::function<bool()>& ready);

// Whether this call that queues something has to fail.
[[nodiscard]] bool queueing_fails();

}  // namespace hicache::testing_support

// The types behind cudaStream_t and cudaEvent_t.
struct CUstream_st {
  public:
    CUstream_st();

    void queue(std::function<void()> operation);
    [[nodiscard]] bool idle() const;
    // The thread ends once all is complete, and the stream with it.
    void end() { ending_.store(true, std::memory_order_release); }

  private:
    struct Operation {
        std::atomic<Operation*> next{nullptr};
        std::function<void()> run;
    };
    ~CUstream_st() = default;
    void work(Operation* done);
    // The next one, or nullptr at the end.
    Operation* next_of(const Operation& done);
    void rest();

    std::mutex producers_;
    Operation* last_;
    std::atomic<int64_t> queued_{0};
    std::atomic<int64_t> complete_{0};
    std::atomic<bool> ending_{false};
    std::minstd_rand random_;
};

struct CUevent_st {
  public:
    explicit CUevent_st(bool timed) : timed_(timed) {}

    [[nodiscard]] bool timed() const { return timed_; }
    // The event stands for a new mark from now on.
    hicache::testing_support::Mark* mark();
    // nullptr before the first recording.
    [[nodiscard]] hicache::testing_support::Mark* latest();

  private:
    const bool timed_;
    std::mutex mutex_;
    std::deque<hicache::testing_support::Mark> marks_;  // all kept: streams still look at old ones
};
