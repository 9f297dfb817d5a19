#include "backends/cuda/kernel_way.h"

#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/kernel_segments.h"
#include "backends/cuda/queue_limit.h"
#include "transfer/layer_groups.h"

namespace hicache::cuda {
namespace {

constexpr int kGroupOperations = 2;  // a launch and an event

}  // namespace

KernelWay::KernelWay(std::shared_ptr<const CopyGeometry> geometry, uint64_t host, int blocks,
                     std::shared_ptr<EventPool> events)
    : geometry_(std::move(geometry)),
      events_(std::move(events)),
      blocks_(blocks),
      tables_(std::make_shared<PageTables>()) {
    std::vector<KernelSegment> all;
    for (int layer = 0; layer < geometry_->num_layers(); ++layer) {
        first_segment_.push_back(static_cast<int>(all.size()));
        for (const Segment& segment : geometry_->segments(layer))
            all.push_back(kernel_segment(segment, host + static_cast<uint64_t>(segment.host_base),
                                         segment.host_stride, 0));
    }
    first_segment_.push_back(static_cast<int>(all.size()));
    tables_->prepare();
    segments_ = DeviceArray<KernelSegment>(all);
}

void KernelWay::queue(const CopyOrder& order, int group_layers, cudaStream_t stream,
                      LayerGate& gate, std::shared_ptr<void>& held) {
    if (!limit_) limit_.emplace(events_, stream);
    const auto table = tables_->upload(order.plan, stream);
    held = table;
    for (const LayerGroup& group : layer_groups(*geometry_, order, group_layers)) {
        const int first = first_segment_[group.first_layer];
        require(move_segments(segments_.get() + first, first_segment_[group.last_layer] - first,
                              table->pairs(), order.plan.num_pages(),
                              order.direction == Direction::kHostToDevice, blocks_, stream),
                "Launching the kernel for layers ", group.first_layer, " to ",
                group.last_layer - 1);
        gate.layers_queued(group.first_position, group.first_position + group.layers(), stream);
        limit_->queued(kGroupOperations);
    }
}

}  // namespace hicache::cuda
