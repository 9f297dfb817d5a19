#include "backends/cuda/kernel_way.h"

#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/queue_limit.h"

namespace hicache::cuda {
namespace {

KernelSegment describe(const Segment& segment, uint64_t host) {
    const DeviceBuffer& buffer = segment.device;
    const bool packed = buffer.packed();
    const int64_t row_bytes = packed ? segment.page_bytes() : buffer.row_bytes;
    const int64_t row_stride = packed ? 0 : buffer.row_stride;
    const uint64_t base = host + static_cast<uint64_t>(segment.host_base);
    const int64_t unit = largest_unit(
        base | buffer.address |
        static_cast<uint64_t>(segment.host_stride | buffer.page_stride | row_stride | row_bytes));
    return {base,
            segment.host_stride,
            buffer.address,
            buffer.page_stride,
            row_stride,
            row_bytes / unit,
            segment.page_bytes() / unit,
            unit};
}

}  // namespace

KernelWay::KernelWay(const CopyGeometry& geometry, uint64_t host, int blocks,
                     std::shared_ptr<EventPool> events)
    : events_(std::move(events)), blocks_(blocks), tables_(std::make_shared<PageTables>()) {
    require(load_kernel(), "Loading the kernel");
    std::vector<KernelSegment> all;
    for (int layer = 0; layer < geometry.num_layers(); ++layer) {
        first_segment_.push_back(static_cast<int>(all.size()));
        for (const Segment& segment : geometry.segments(layer))
            all.push_back(describe(segment, host));
    }
    first_segment_.push_back(static_cast<int>(all.size()));
    const size_t bytes = all.size() * sizeof(KernelSegment);
    segments_ = DeviceMemory(bytes);
    require(cudaMemcpy(segments_.get(), all.data(), bytes, cudaMemcpyHostToDevice),
            "Copying the addresses of ", all.size(), " segments");
}

std::shared_ptr<void> KernelWay::queue(const CopyOrder& order, cudaStream_t stream,
                                       LayerGate& gate) {
    QueueLimit limit(events_, stream);
    const auto table = tables_->upload(order.plan, stream);
    const auto* segments = static_cast<const KernelSegment*>(segments_.get());
    for (size_t position = 0; position < order.layers.size(); ++position) {
        const int layer = order.layers[position];
        const int first = first_segment_[layer];
        require(move_layer(segments + first, first_segment_[layer + 1] - first, table->pairs(),
                           order.plan.num_pages(), order.direction == Direction::kHostToDevice,
                           blocks_, stream),
                "Launching the kernel for layer ", layer);
        gate.layer_queued(static_cast<int>(position), stream);
        limit.queued(1);
    }
    return table;
}

}  // namespace hicache::cuda
