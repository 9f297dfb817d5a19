#include "backends/cuda/direct_way.h"

#include <utility>

#include "transfer/block_plan.h"
#include "transfer/layer_groups.h"

namespace hicache::cuda {

DirectWay::DirectWay(std::shared_ptr<const CopyGeometry> geometry, CopyEngine engine,
                     std::shared_ptr<EventPool> events)
    : geometry_(std::move(geometry)), engine_(engine), events_(std::move(events)) {}

void DirectWay::queue(const CopyOrder& order, int group_layers, cudaStream_t stream,
                      LayerGate& gate, std::shared_ptr<void>& /*held*/) {
    if (!limit_) limit_.emplace(events_, stream);
    std::vector<Block> blocks;
    if (geometry_->whole_records(order.layers.size(), group_layers)) {
        for (const PageRun& run : order.plan.runs()) {
            for (const RecordPart& part : geometry_->record())
                append_blocks(part, run, blocks);
        }
        engine_.queue(blocks, order.direction, stream, *limit_);
        gate.layers_queued(0, static_cast<int>(order.layers.size()), stream);
        return;
    }
    for (const LayerGroup& group : layer_groups(*geometry_, order, group_layers)) {
        blocks.clear();
        for (int layer = group.first_layer; layer < group.last_layer; ++layer) {
            for (const Segment& segment : geometry_->segments(layer)) {
                for (const PageRun& run : order.plan.runs())
                    append_blocks(segment, run, blocks);
                if (blocks.size() < size_t{QueueLimit::kStep}) continue;
                engine_.queue(blocks, order.direction, stream, *limit_);
                blocks.clear();
            }
        }
        engine_.queue(blocks, order.direction, stream, *limit_);
        gate.layers_queued(group.first_position, group.first_position + group.layers(), stream);
        limit_->queued(1);
    }
}

}  // namespace hicache::cuda
