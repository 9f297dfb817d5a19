// A point in somebody's queue of work: everything queued before it, on one stream.
//
// Copies wait for fences, callers do not. Thread-safe. Always owned by a shared_ptr, which the
// class knows: so bindings hand out that owner again, and not one that needs the interpreter to let
// go.
#pragma once

#include <memory>
#include <optional>

namespace hicache {

// Seconds to wait; nullopt = no limit, 0 and less = only look.
using Timeout = std::optional<double>;

class Fence : public std::enable_shared_from_this<Fence> {
  public:
    virtual ~Fence() = default;

    // Whether everything before the fence is complete. Never blocks.
    [[nodiscard]] virtual bool done() const = 0;
    // Waits for done(); false at the limit. Throws: std::runtime_error in a forked child.
    virtual bool wait(Timeout timeout) const = 0;
};

using FencePtr = std::shared_ptr<Fence>;

}  // namespace hicache
