// Copies by a few blocks of the GPU's own processors, which read and write the pinned host pool:
// fast for any scatter of pages, in layer order, at the price of processors the model could use. A
// launch a group of layers.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/copy_way.h"
#include "backends/cuda/page_kernel.h"
#include "backends/cuda/page_tables.h"
#include "backends/cuda/queue_limit.h"
#include "transfer/copy_geometry.h"

namespace hicache::cuda {

class KernelWay : public CopyWay {
  public:
    // host: address of the pinned pool as the device sees it. blocks: > 0.
    // Requires: the device is current. Throws: std::runtime_error if there is no memory,
    // std::invalid_argument as kernel_segment().
    KernelWay(std::shared_ptr<const CopyGeometry> geometry, uint64_t host, int blocks,
              std::shared_ptr<EventPool> events);

    void queue(const CopyOrder& order, int group_layers, cudaStream_t stream, LayerGate& gate,
               std::shared_ptr<void>& held) override;

  private:
    const std::shared_ptr<const CopyGeometry> geometry_;
    const std::shared_ptr<EventPool> events_;
    std::optional<QueueLimit> limit_;  // of the stream, which is always the same
    const int blocks_;
    std::vector<int> first_segment_;  // by layer, one entry more than layers
    DeviceArray<KernelSegment> segments_;
    std::shared_ptr<PageTables> tables_;
};

}  // namespace hicache::cuda
