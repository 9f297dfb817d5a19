// The host pool as the device sees it: pinned where the system allows it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "backends/cuda/pinned_regions.h"
#include "core/host_memory.h"
#include "transfer/copy_options.h"

namespace hicache::cuda {

class PinnedPool {
  public:
    // Throws: std::runtime_error if pinning is kAlways and the system refuses.
    PinnedPool(int device, HostMemory host, const CopyOptions& options);
    ~PinnedPool() { unpin(); }
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;

    [[nodiscard]] bool pinned() const { return regions_ && regions_->pinned(); }
    // Address of the first byte for kernels; 0 if they cannot use the pool.
    [[nodiscard]] uint64_t device_address() const { return device_address_; }
    // No copy operation may cross a multiple of this offset; 0 = any may.
    [[nodiscard]] int64_t cut_bytes() const { return cut_bytes_; }
    [[nodiscard]] const std::string& warning() const { return warning_; }

    // Gives the pool back to the system, last chunk first. Idempotent. Requires: no copy runs.
    void unpin();

  private:
    void look_from_device();

    const int device_;
    const HostMemory host_;
    std::optional<PinnedRegions> regions_;
    int64_t cut_bytes_ = 0;
    uint64_t device_address_ = 0;
    std::string warning_;
};

}  // namespace hicache::cuda
