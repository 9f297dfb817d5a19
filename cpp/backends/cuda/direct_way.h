// Copies by copy engine, straight between host pool and pages: they cost the model no processor
// time.
//
// Groups of layers, neighbouring pages merged. Or whole records, where host records are contiguous
// and the device's layers lie equally far apart: a page that is one block of bytes on both sides
// moves as one, else as a rectangle of all its layers; all layers land together then.
#pragma once

#include <memory>
#include <optional>

#include "backends/cuda/copy_engine.h"
#include "backends/cuda/copy_way.h"
#include "backends/cuda/queue_limit.h"

namespace hicache::cuda {

class DirectWay : public CopyWay {
  public:
    DirectWay(std::shared_ptr<const CopyGeometry> geometry, CopyEngine engine,
              std::shared_ptr<EventPool> events);

    void queue(const CopyOrder& order, int group_layers, cudaStream_t stream, LayerGate& gate,
               std::shared_ptr<void>& held) override;

  private:
    const std::shared_ptr<const CopyGeometry> geometry_;
    const CopyEngine engine_;
    const std::shared_ptr<EventPool> events_;
    std::optional<QueueLimit> limit_;  // of the stream, which is always the same
};

}  // namespace hicache::cuda
