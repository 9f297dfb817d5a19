// Blocks of bytes between the host pool and the device by copy engine.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cuda/queue_limit.h"
#include "transfer/block_plan.h"
#include "transfer/direction.h"

namespace hicache::cuda {

class CopyEngine {
  public:
    // chunk_bytes: no operation crosses a multiple of it in the host pool, 0 = any may. pinned:
    // whether the host pool is; batches are for pinned memory.
    CopyEngine(std::byte* host, int64_t chunk_bytes, bool pinned)
        : host_(host), chunk_bytes_(chunk_bytes), pinned_(pinned) {}

    // Queues the blocks on the stream: single rows in batches, rectangles one by one.
    // Throws: std::runtime_error if CUDA refuses.
    void queue(const std::vector<Block>& blocks, Direction direction, cudaStream_t stream,
               QueueLimit& limit) const;

  private:
    void queue_rectangle(const Block& block, Direction direction, cudaStream_t stream) const;
    void queue_pieces(std::vector<Block>& pieces, Direction direction, cudaStream_t stream,
                      QueueLimit& limit) const;

    std::byte* const host_;
    const int64_t chunk_bytes_;
    const bool pinned_;
};

}  // namespace hicache::cuda
