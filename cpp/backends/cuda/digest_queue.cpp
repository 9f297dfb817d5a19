#include "backends/cuda/digest_queue.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

#include "backends/cuda/copy_way.h"
#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {
namespace {

constexpr int kOperations = 4;  // a wait, a launch and their like
constexpr size_t kSmallestWords = 1024;
constexpr int64_t kPreparedPages = 256;  // of a copy
constexpr int kPreparedWords = 4;

DigestSegment digest_segment(const Segment& segment, int64_t start) {
    if (segment.page_bytes() > kMostUnits) {
        bad_argument("A page has ", segment.page_bytes(), " bytes in one layer, and verify takes ",
                     kMostUnits, " at most; make pages smaller, or use verify 'off'.");
    }
    const DeviceBuffer& buffer = segment.device;
    const bool packed = buffer.packed();
    return {buffer.address,
            buffer.page_stride,
            packed ? 0 : buffer.row_stride,
            packed ? segment.page_bytes() : buffer.row_bytes,
            start,
            segment.page_bytes()};
}

uint64_t all_of(const DigestSegment& segment) {
    return segment.device | static_cast<uint64_t>(segment.device_stride | segment.row_stride |
                                                  segment.row_bytes | segment.start);
}

}  // namespace

DigestWords::DigestWords(size_t count) : count_(count), memory_(count * sizeof(uint64_t)) {
    void* device = nullptr;
    require(cudaHostGetDevicePointer(&device, memory_.get(), 0), "Mapping ", count, " digests");
    device_ = static_cast<uint64_t*>(device);
}

void DigestWordsPool::prepare(size_t count, int how_many) {
    std::lock_guard lock(mutex_);
    while (idle_.size() < static_cast<size_t>(how_many))
        idle_.push_back(std::make_unique<DigestWords>(std::bit_ceil(count)));
}

std::shared_ptr<DigestWords> DigestWordsPool::take(size_t count) {
    std::unique_ptr<DigestWords> words;
    {
        std::lock_guard lock(mutex_);
        const auto fits =
            std::ranges::find_if(idle_, [&](const auto& each) { return each->count() >= count; });
        if (fits != idle_.end()) {
            words = std::move(*fits);
            idle_.erase(fits);
        }
    }
    if (!words)
        words = std::make_unique<DigestWords>(std::bit_ceil(std::max(count, kSmallestWords)));
    return {words.release(), [self = shared_from_this()](DigestWords* used) {
                std::unique_ptr<DigestWords> held(used);
                std::lock_guard lock(self->mutex_);
                self->idle_.push_back(std::move(held));
            }};
}

DigestQueue::DigestQueue(std::shared_ptr<const CopyGeometry> geometry, int priority,
                         int64_t batch_bytes, std::shared_ptr<EventPool> events)
    : geometry_(std::move(geometry)), batch_bytes_(batch_bytes), events_(std::move(events)) {
    std::vector<DigestSegment> segments;
    std::vector<DigestLayer> layers;
    for (int layer = 0; layer < geometry_->num_layers(); ++layer) {
        const HostEntry& entry = geometry_->entry(layer);
        DigestLayer shape{static_cast<int64_t>(segments.size()), entry.bytes, 0};
        uint64_t all = 0;
        for (const Segment& segment : geometry_->segments(layer)) {
            segments.push_back(digest_segment(segment, segment.host_base - entry.base));
            all |= all_of(segments.back());
        }
        shape.unit = largest_unit(all);
        layers.push_back(shape);
    }
    layers.push_back({static_cast<int64_t>(segments.size()), 0, 0});
    tables_->prepare();
    words_->prepare(static_cast<size_t>(kPreparedPages * geometry_->num_layers()), kPreparedWords);
    segments_ = DeviceArray<DigestSegment>(segments);
    layers_ = DeviceArray<DigestLayer>(layers);
    require(load_digest_kernel(), "Loading the digest kernel");
    require(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority),
            "Creating a stream");
    limit_.emplace(events_, stream_);
}

DigestQueue::~DigestQueue() {
    static_cast<void>(accept(cudaStreamDestroy(stream_)));
}

void DigestQueue::order_behind_readers(const CopyOrder& order, cudaStream_t stream) {
    while (!ends_.empty() && accept(cudaEventQuery(ends_.front().second->get())))
        ends_.pop_front();
    if (ends_.empty()) return;
    int64_t last = 0;
    for (const PageRun& run : order.plan.runs()) {
        const auto known = static_cast<int64_t>(read_by_.size());
        for (int64_t page = run.device_page; page < std::min(run.device_page + run.count, known);
             ++page)
            last = std::max(last, read_by_[page]);
    }
    const auto end = std::ranges::find_if(ends_.rbegin(), ends_.rend(),
                                          [&](const auto& each) { return each.first <= last; });
    if (end != ends_.rend())
        require(cudaStreamWaitEvent(stream, end->second->get(), 0), "Waiting for digests");
}

void DigestQueue::begin(const CopyOrder& order, LayerGate& gate, std::shared_ptr<DigestRun>& run) {
    run = std::make_shared<DigestRun>();
    run->words = words_->take(static_cast<size_t>(order.plan.num_pages()) * order.layers.size());
    run->table = tables_->upload(order.plan, stream_);
    waiting_first_ = waiting_last_ = 0;
    if (order.direction == Direction::kDeviceToHost) {
        order_after_fences(order, stream_);
        take(order, *run, 0, static_cast<int>(order.layers.size()));
    } else {
        gate.on_queued([this, &order, &mine = *run](int first, int last, cudaStream_t stream) {
            landed(order, mine, first, last, stream);
        });
    }
}

void DigestQueue::landed(const CopyOrder& order, const DigestRun& run, int first, int last,
                         cudaStream_t stream) {
    assert(first == waiting_last_);  // the order of its layers
    static_cast<void>(first);
    waiting_last_ = last;
    int64_t bytes = 0;
    for (int position = waiting_first_; position < waiting_last_; ++position)
        bytes += geometry_->entry(order.layers[static_cast<size_t>(position)]).bytes;
    if (bytes * order.plan.num_pages() < batch_bytes_ &&
        waiting_last_ < static_cast<int>(order.layers.size()))
        return;
    const PooledEvent here = events_->record(stream);
    require(cudaStreamWaitEvent(stream_, here.get(), 0), "Waiting for an event");
    take(order, run, waiting_first_, waiting_last_);
    waiting_first_ = waiting_last_;
}

void DigestQueue::take(const CopyOrder& order, const DigestRun& run, int first, int last) {
    const int64_t pages = order.plan.num_pages();
    while (first < last) {  // layers that are neighbours in the format share a launch
        const int layer = order.layers[static_cast<size_t>(first)];
        int count = 1;
        while (first + count < last &&
               order.layers[static_cast<size_t>(first + count)] == layer + count)
            ++count;
        const DigestTask task{segments_.get(),
                              layers_.get(),
                              run.table->pairs(),
                              pages,
                              layer,
                              layer + count,
                              order.digests->sample(),
                              run.words->device() + first * pages};
        require(take_digests(task, kBlocks, stream_), "Launching the digests of layers ", layer,
                " to ", layer + count - 1);
        limit_->queued(kOperations);
        first += count;
    }
}

void DigestQueue::end(const CopyOrder& order, DigestRun& run) {
    assert(order.direction == Direction::kDeviceToHost || waiting_first_ == waiting_last_);
    run.end = std::make_shared<PooledEvent>(events_->record(stream_));
    if (order.direction == Direction::kDeviceToHost) return;
    for (const PageRun& pages : order.plan.runs()) {
        const auto end = static_cast<size_t>(pages.device_page + pages.count);
        if (read_by_.size() < end) read_by_.resize(end, 0);
        std::fill(read_by_.begin() + pages.device_page,
                  read_by_.begin() + static_cast<int64_t>(end), order.sequence);
    }
    ends_.emplace_back(order.sequence, run.end);
}

void DigestQueue::join(cudaStream_t stream) {
    const PooledEvent here = events_->record(stream_);
    require(cudaStreamWaitEvent(stream, here.get(), 0), "Waiting for an event");
}

}  // namespace hicache::cuda
