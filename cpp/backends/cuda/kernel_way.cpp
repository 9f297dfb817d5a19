#include "backends/cuda/kernel_way.h"

#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/kernel_segments.h"
#include "backends/cuda/queue_limit.h"

namespace hicache::cuda {
namespace {

constexpr int kLayerOperations = 2;  // a launch and an event

}  // namespace

KernelWay::KernelWay(const CopyGeometry& geometry, uint64_t host, int blocks,
                     std::shared_ptr<EventPool> events)
    : events_(std::move(events)), blocks_(blocks), tables_(std::make_shared<PageTables>()) {
    std::vector<KernelSegment> all;
    for (int layer = 0; layer < geometry.num_layers(); ++layer) {
        first_segment_.push_back(static_cast<int>(all.size()));
        for (const Segment& segment : geometry.segments(layer))
            all.push_back(kernel_segment(segment, host + static_cast<uint64_t>(segment.host_base),
                                         segment.host_stride, 0));
    }
    first_segment_.push_back(static_cast<int>(all.size()));
    tables_->prepare();
    segments_ = DeviceArray<KernelSegment>(all);
}

void KernelWay::queue(const CopyOrder& order, int /*group_layers*/, cudaStream_t stream,
                      LayerGate& gate, std::shared_ptr<void>& held) {
    if (!limit_) limit_.emplace(events_, stream);
    const auto table = tables_->upload(order.plan, stream);
    held = table;
    for (int position = 0; position < static_cast<int>(order.layers.size()); ++position) {
        const int layer = order.layers[position];
        const int first = first_segment_[layer];
        require(move_layer(segments_.get() + first, first_segment_[layer + 1] - first,
                           table->pairs(), order.plan.num_pages(),
                           order.direction == Direction::kHostToDevice, blocks_, stream),
                "Launching the kernel for layer ", layer);
        gate.layers_queued(position, position + 1, stream);
        limit_->queued(kLayerOperations);
    }
}

}  // namespace hicache::cuda
