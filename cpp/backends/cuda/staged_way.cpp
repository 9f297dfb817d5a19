#include "backends/cuda/staged_way.h"

#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/kernel_segments.h"

namespace hicache::cuda {
namespace {

constexpr int kTileOperations = 4;  // on each stream: a wait, a copy or launch, records

}  // namespace

StagedWay::StagedWay(std::shared_ptr<const CopyGeometry> geometry, CopyEngine engine,
                     std::unique_ptr<StagingRing> ring, int blocks, int priority,
                     std::shared_ptr<EventPool> events)
    : geometry_(std::move(geometry)),
      engine_(engine),
      ring_(std::move(ring)),
      blocks_(blocks),
      events_(std::move(events)) {
    std::vector<KernelSegment> segments;
    std::vector<KernelEntry> entries;
    uint64_t alignment = 0;  // where in a bay entries begin
    for (int layer = 0; layer < geometry_->num_layers(); ++layer)
        alignment |= static_cast<uint64_t>(geometry_->entry(layer).bytes);
    for (int layer = 0; layer < geometry_->num_layers(); ++layer) {
        const HostEntry& entry = geometry_->entry(layer);
        entries.push_back({entry.in_record, entry.bytes, static_cast<int64_t>(segments.size())});
        for (const Segment& segment : geometry_->segments(layer)) {
            const auto in_entry = static_cast<uint64_t>(segment.host_base - entry.base);
            segments.push_back(kernel_segment(segment, in_entry, 0, alignment));
        }
    }
    entries.push_back({0, 0, static_cast<int64_t>(segments.size())});
    tables_->prepare();
    segments_ = DeviceArray<KernelSegment>(segments);
    entries_ = DeviceArray<KernelEntry>(entries);
    require(cudaStreamCreateWithPriority(&link_, cudaStreamNonBlocking, priority),
            "Creating a stream");
}

StagedWay::~StagedWay() {
    static_cast<void>(accept(cudaStreamDestroy(link_)));
}

void StagedWay::queue(const CopyOrder& order, int group_layers, cudaStream_t stream,
                      LayerGate& gate, std::shared_ptr<void>& held) {
    if (!limit_) limit_.emplace(events_, stream);
    if (!link_limit_) link_limit_.emplace(events_, link_);
    const bool loads = order.direction == Direction::kHostToDevice;
    const auto table = tables_->upload(order.plan, stream);
    held = table;
    if (loads) order_after_fences(order, link_);
    for (const StageTile& tile : stage_tiles(*geometry_, order, ring_->bay_bytes(), group_layers)) {
        if (geometry_->page_bytes(tile.first_layer, tile.last_layer) > 0) {
            const PagePair* pairs = table->pairs() + tile.first_page;
            limit_->queued(kTileOperations);
            link_limit_->queued(kTileOperations);
            if (loads) {
                load(tile, order.plan, pairs, stream);
            } else {
                save(tile, order.plan, pairs, stream);
            }
        }
        if (tile.last) {
            gate.layers_queued(tile.first_position, tile.first_position + tile.layers(),
                               loads ? stream : link_);
        }
    }
}

void StagedWay::load(const StageTile& tile, const CopyPlan& plan, const PagePair* pairs,
                     cudaStream_t stream) {
    StagingRing::Bay& bay = ring_->next();
    std::vector<Block> blocks;
    append_tile_blocks(*geometry_, plan, tile, bay.address, blocks);
    order_behind(link_, bay.free);
    engine_.queue(blocks, Direction::kHostToDevice, link_, *link_limit_);
    order_behind(stream, events_->record(link_));
    move(tile, bay.address, pairs, true, stream);
    bay.free = events_->record(stream);
}

void StagedWay::save(const StageTile& tile, const CopyPlan& plan, const PagePair* pairs,
                     cudaStream_t stream) {
    StagingRing::Bay& bay = ring_->next();
    std::vector<Block> blocks;
    append_tile_blocks(*geometry_, plan, tile, bay.address, blocks);
    order_behind(stream, bay.free);
    move(tile, bay.address, pairs, false, stream);
    order_behind(link_, events_->record(stream));
    engine_.queue(blocks, Direction::kDeviceToHost, link_, *link_limit_);
    bay.free = events_->record(link_);
}

void StagedWay::move(const StageTile& tile, uint64_t bay, const PagePair* pairs, bool to_device,
                     cudaStream_t stream) {
    const KernelTile part{bay, tile.first_layer, tile.last_layer, tile.pages,
                          geometry_->host_records()};
    require(move_tile(segments_.get(), entries_.get(), pairs, part, to_device, blocks_, stream),
            "Launching the kernel for layers ", tile.first_layer, " to ", tile.last_layer - 1);
}

void StagedWay::order_behind(cudaStream_t stream, const PooledEvent& event) {
    if (event) require(cudaStreamWaitEvent(stream, event.get(), 0), "Waiting for an event");
}

void StagedWay::join(cudaStream_t stream) {
    order_behind(stream, events_->record(link_));
    order_behind(link_, events_->record(stream));  // a failed copy may have left a bay in use
}

}  // namespace hicache::cuda
