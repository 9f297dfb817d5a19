// A range of the calling thread for profilers that know NVTX (Nsight Systems), in the domain
// "hicache_nsa". Built where CUDA is; elsewhere, and where no profiler is attached, nothing.
#pragma once

#include <cstdint>

namespace hicache {

namespace nvtx {

// Whether a profiler asked for ranges. It is attached when the process starts, or never.
[[nodiscard]] bool attached() noexcept;
// number: behind the name, where there is one (>= 0). Requires: attached().
void push(const char* name, int64_t number) noexcept;
void pop() noexcept;

}  // namespace nvtx

class NvtxRange {
  public:
    // "name", or "name<number>". Until the end of the scope; ranges of a thread nest.
    explicit NvtxRange(const char* name, int64_t number = -1) noexcept : open_(nvtx::attached()) {
        if (open_) nvtx::push(name, number);
    }
    ~NvtxRange() {
        if (open_) nvtx::pop();
    }
    NvtxRange(const NvtxRange&) = delete;
    NvtxRange& operator=(const NvtxRange&) = delete;

  private:
    const bool open_;
};

}  // namespace hicache
