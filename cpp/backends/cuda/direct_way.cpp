#include "backends/cuda/direct_way.h"

#include <utility>

#include "transfer/block_plan.h"

namespace hicache::cuda {

DirectWay::DirectWay(std::shared_ptr<const CopyGeometry> geometry, CopyEngine engine,
                     std::shared_ptr<EventPool> events)
    : geometry_(std::move(geometry)), engine_(engine), events_(std::move(events)) {}

void DirectWay::queue(const CopyOrder& order, int group_layers, cudaStream_t stream,
                      LayerGate& gate, std::shared_ptr<void>& /*held*/) {
    if (!limit_) limit_.emplace(events_, stream);
    std::vector<Block> blocks;
    const auto layers = static_cast<int>(order.layers.size());
    if (geometry_->whole_records(order.layers.size(), group_layers)) {
        for (const PageRun& run : order.plan.runs()) {
            for (const RecordPart& part : geometry_->record())
                append_blocks(part, run, blocks);
        }
        engine_.queue(blocks, order.direction, stream, *limit_);
        gate.layers_queued(0, layers, stream);
        return;
    }
    for (int position = 0; position < layers; ++position) {
        blocks.clear();
        for (const Segment& segment : geometry_->segments(order.layers[position])) {
            for (const PageRun& run : order.plan.runs())
                append_blocks(segment, run, blocks);
        }
        engine_.queue(blocks, order.direction, stream, *limit_);
        gate.layers_queued(position, position + 1, stream);
        limit_->queued(1);
    }
}

}  // namespace hicache::cuda
