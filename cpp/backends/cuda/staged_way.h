// Copies through a ring on the device: a copy engine moves long pieces between host pool and ring,
// a few blocks of the GPU gather or scatter between ring and pages, at the speed of device memory.
//
// The link sees long contiguous pieces whatever the order of the device pages, and the model loses
// a few processors for a fraction of the time. The kernel runs on the lane's stream, the copy
// engine on one of our own.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/cuda/copy_engine.h"
#include "backends/cuda/copy_way.h"
#include "backends/cuda/page_tables.h"
#include "backends/cuda/staging_ring.h"
#include "transfer/stage_plan.h"

namespace hicache::cuda {

class StagedWay : public CopyWay {
  public:
    // blocks: of the kernel, > 0. priority: of the copy engine's stream.
    // Requires: the device is current. Throws: std::runtime_error if CUDA refuses,
    // std::invalid_argument as kernel_segment().
    StagedWay(std::shared_ptr<const CopyGeometry> geometry, CopyEngine engine,
              std::unique_ptr<StagingRing> ring, int blocks, int priority,
              std::shared_ptr<EventPool> events);
    ~StagedWay() override;
    StagedWay(const StagedWay&) = delete;
    StagedWay& operator=(const StagedWay&) = delete;

    void queue(const CopyOrder& order, int group_layers, cudaStream_t stream, LayerGate& gate,
               std::shared_ptr<void>& held) override;
    void join(cudaStream_t stream) override;

  private:
    void load(const StageTile& tile, const CopyPlan& plan, const PagePair* pairs,
              cudaStream_t stream);
    void save(const StageTile& tile, const CopyPlan& plan, const PagePair* pairs,
              cudaStream_t stream);
    void move(const StageTile& tile, uint64_t bay, const PagePair* pairs, bool to_device,
              cudaStream_t stream);
    void order_behind(cudaStream_t stream, const PooledEvent& event);

    const std::shared_ptr<const CopyGeometry> geometry_;
    const CopyEngine engine_;
    const std::unique_ptr<StagingRing> ring_;
    const int blocks_;
    const std::shared_ptr<EventPool> events_;
    cudaStream_t link_ = nullptr;
    std::optional<QueueLimit> link_limit_;
    std::optional<QueueLimit> limit_;  // of the lane's stream, which is always the same
    DeviceArray<KernelSegment> segments_;
    DeviceArray<KernelEntry> entries_;
    const std::shared_ptr<PageTables> tables_ = std::make_shared<PageTables>();
};

}  // namespace hicache::cuda
