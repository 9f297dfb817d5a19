// How streams of a device wait for the layers of one copy, where the device has streams.
#pragma once

#include <cstdint>

namespace hicache {

class StreamGate {
  public:
    virtual ~StreamGate() = default;

    // Throws: std::runtime_error for a stream that nothing may be queued on now (it is being
    // captured into a graph), or that is none of the device's.
    virtual void check_stream(uintptr_t stream) const = 0;

    // Work queued on the stream after this call runs behind the layer at `position` of the copy, or
    // behind the end of the copy if it fails. Also right for a copy that has not started. Never
    // blocks. Requires: check_stream() accepted the stream.
    virtual void enqueue_wait(int position, uintptr_t stream) = 0;
};

}  // namespace hicache
