// A stream's clock on the CPU backend: work is submitted, completes in order, and a fence stands
// for everything submitted so far. What a CUDA event is to a CUDA stream.
//
// Thread-safe. Handles: copies share the clock.
#pragma once

#include <cstdint>
#include <memory>

#include "core/fence.h"

namespace hicache {

class StreamClock {
  public:
    StreamClock();

    // Announces one more piece of work; returns its value, to be given to complete().
    int64_t submit();
    // All work up to `value` is complete.
    // Throws: std::invalid_argument for a value never submitted or already complete.
    void complete(int64_t value);
    [[nodiscard]] FencePtr fence() const;

  private:
    struct Clock;
    class Point;

    std::shared_ptr<Clock> clock_;
};

}  // namespace hicache
