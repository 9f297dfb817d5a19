// A stream's clock on the CPU backend: work is submitted, completes in order, and a fence stands
// for everything submitted so far. What a CUDA event is to a CUDA stream.
//
// Thread-safe. Handles: copies share the clock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

namespace hicache {

// Seconds to wait; nullopt = no limit, 0 and less = only look.
using Timeout = std::optional<double>;

class Fence {
  public:
    // Whether everything before the fence is complete. Never blocks.
    [[nodiscard]] bool done() const;
    // Waits for done(); false at the limit. Throws: std::runtime_error in a forked child.
    bool wait(Timeout timeout) const;

  private:
    friend class Timeline;
    struct Clock;
    Fence(std::shared_ptr<Clock> clock, int64_t value);

    std::shared_ptr<Clock> clock_;
    int64_t value_;
};

class Timeline {
  public:
    Timeline();

    // Announces one more piece of work; returns its value, to be given to complete().
    int64_t submit();
    // All work up to `value` is complete.
    // Throws: std::invalid_argument for a value never submitted or already complete.
    void complete(int64_t value);
    [[nodiscard]] Fence fence() const;

  private:
    std::shared_ptr<Fence::Clock> clock_;
};

}  // namespace hicache
