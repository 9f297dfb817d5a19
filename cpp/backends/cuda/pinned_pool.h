// The host pool as the device sees it: chunks that are pinned, and chunks that had to stay
// pageable.
//
// Chunks are pinned as the pool's memory gets ready: the first ones in the constructor, the others
// meanwhile. Thread-safe, but for unpin().
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/host_memory.h"
#include "core/pinned_chunks.h"
#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"
#include "transfer/copy_options.h"

namespace hicache::cuda {

class PinnedPool {
  public:
    // Throws: std::runtime_error if pinning is kAlways and the system refuses one of the first
    // chunks, or if a part of one is registered by somebody else.
    PinnedPool(int device, HostMemory host, const CopyOptions& options);
    ~PinnedPool() { unpin(); }
    PinnedPool(const PinnedPool&) = delete;
    PinnedPool& operator=(const PinnedPool&) = delete;

    // Whether some chunk is pinned, or may still be.
    [[nodiscard]] bool pinned() const { return chunks_ != nullptr; }
    // Whether all host pages of the copy are. Those of memory that is ready do not change.
    [[nodiscard]] bool pinned(const CopyGeometry& geometry, const CopyOrder& order) const;
    // Address of the first byte for kernels; 0 if they cannot use the pool.
    [[nodiscard]] uint64_t device_address() const { return device_address_; }
    // No copy operation may cross a multiple of this offset; 0 = any may.
    [[nodiscard]] int64_t cut_bytes() const { return cut_bytes_; }
    [[nodiscard]] const std::string& warning() const { return warning_; }

    // Gives the pool back to the system, last chunk first. Idempotent. Requires: no copy runs.
    void unpin();

  private:
    [[nodiscard]] int64_t choose_chunk(const CopyOptions& options) const;
    void look_from_device();

    const int device_;
    const HostMemory host_;
    bool same_address_ = false;
    std::shared_ptr<PinnedChunks> chunks_;
    int64_t cut_bytes_ = 0;
    uint64_t device_address_ = 0;
    std::string warning_;
};

}  // namespace hicache::cuda
