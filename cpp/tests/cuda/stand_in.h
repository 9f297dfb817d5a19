// What tests tell the stand-in for the CUDA runtime, and ask it.
//
// The stand-in is enough of the runtime and the driver for backends/cuda to run without a GPU: a
// stream is a thread that runs what is queued on it in turn, device memory is memory. Built with
// it, tests show that every byte is ordered behind what it has to follow, that layers are never
// announced early, that nothing hangs when a call fails, that kernels and batches touch registered
// host memory only, and, under the thread sanitizer, that no two streams touch a byte without an
// event or a flag between them. As with CUDA, a single copy of host memory that is not registered
// keeps its caller until it is complete.
//
// It cannot show what only a GPU has: hardware queues that streams share, locks of the driver,
// calls that block, page_kernel.cu itself, device allocations with borders, capturing, and speed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

namespace hicache::testing_support {

// A stream as an engine has them. At the end its work runs on, as with CUDA.
class UserStream {
  public:
    UserStream();
    ~UserStream();
    UserStream(const UserStream&) = delete;
    UserStream& operator=(const UserStream&) = delete;

    [[nodiscard]] uintptr_t handle() const { return reinterpret_cast<uintptr_t>(stream_); }
    void run(std::function<void()> work);  // queues it
    void wait();                           // until all that is queued is complete

  private:
    cudaStream_t stream_ = nullptr;
};

// Of the calls from now on that queue something, the one after `calls` others fails, once. Calls of
// this thread do not count and do not fail, unless `here`.
void fail_queueing_after(int calls, bool here = false);
void fail_no_queueing();

// While it lives, there is no pinned memory to allocate.
class NoPinnedMemory {
  public:
    NoPinnedMemory();
    ~NoPinnedMemory();
    NoPinnedMemory(const NoPinnedMemory&) = delete;
    NoPinnedMemory& operator=(const NoPinnedMemory&) = delete;
};

// While it lives, host memory for which `refused` holds cannot be registered: cudaHostRegister
// gives cudaErrorMemoryAllocation. In any thread.
class RefusedRegistrations {
  public:
    explicit RefusedRegistrations(
        std::function<bool(const std::byte* begin, size_t bytes)> refused);
    ~RefusedRegistrations();
    RefusedRegistrations(const RefusedRegistrations&) = delete;
    RefusedRegistrations& operator=(const RefusedRegistrations&) = delete;
};

// Registrations that there are, in order of their addresses: begin and bytes.
[[nodiscard]] std::vector<std::pair<const std::byte*, size_t>> registrations();

// The most operations that one stream had in its queue since the last forget_deepest_queue().
int64_t deepest_queue();
void forget_deepest_queue();

}  // namespace hicache::testing_support
