// Copies by copy engine, which cost the model no processor time.
//
// Layer by layer, neighbouring pages merged; blocks of one piece go in batches. A page that is one
// block of bytes on both sides moves as one. Where host records are contiguous, runs are short and
// the device's layers lie equally far apart, a page moves as a rectangle of all its layers, several
// times as fast as layer by layer; all layers land together then.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/copy_way.h"
#include "backends/cuda/queue_limit.h"
#include "transfer/block_plan.h"

namespace hicache::cuda {

class DirectWay : public CopyWay {
  public:
    // chunk_bytes: no operation crosses a multiple of it in the host pool, 0 = any may. pinned:
    // whether the host pool is; batches are for pinned memory.
    DirectWay(std::shared_ptr<const CopyGeometry> geometry, std::byte* host, int64_t chunk_bytes,
              bool pinned, std::shared_ptr<EventPool> events);

    std::shared_ptr<void> queue(const CopyOrder& order, cudaStream_t stream,
                                LayerGate& gate) override;

  private:
    [[nodiscard]] bool whole_records(const CopyOrder& order) const;
    void queue_blocks(const std::vector<Block>& blocks, Direction direction, cudaStream_t stream,
                      QueueLimit& limit) const;
    void queue_rectangle(const Block& block, Direction direction, cudaStream_t stream) const;
    void queue_pieces(std::vector<Block>& pieces, Direction direction, cudaStream_t stream,
                      QueueLimit& limit) const;

    const std::shared_ptr<const CopyGeometry> geometry_;
    std::byte* const host_;
    const int64_t chunk_bytes_;
    const bool pinned_;
    const std::shared_ptr<EventPool> events_;
};

}  // namespace hicache::cuda
