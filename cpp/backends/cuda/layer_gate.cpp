#include "backends/cuda/layer_gate.h"

#include <algorithm>
#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/stream_memory.h"

namespace hicache::cuda {

LayerGate::LayerGate(std::shared_ptr<EventPool> events, std::shared_ptr<EventPool> timed,
                     std::shared_ptr<FlagWaiters> waiters,
                     std::shared_ptr<const std::atomic<int>> held, int layers)
    : pool_(std::move(events)),
      waiters_(std::move(waiters)),
      held_(std::move(held)),
      flags_(std::max(layers, 1)),
      waits_(std::move(timed), layers),
      events_(static_cast<size_t>(layers)),
      awaited_(static_cast<size_t>(layers), false) {}

LayerGate::~LayerGate() {
    if (process_.forked()) return;  // the lock may be held there for ever
    for (const uintptr_t stream : entered_)
        waiters_->leave(stream);
}

void LayerGate::check_stream(uintptr_t stream) const {
    const DeviceScope scope(pool_->device());
    require_not_capturing(stream);
}

cudaEvent_t LayerGate::event_soon(int position, std::unique_lock<std::mutex>& lock) {
    const auto started = std::chrono::steady_clock::now();
    const auto over = [&] { return events_[position] != nullptr || open_ || *held_ > 0; };
    if (!over() && patience_.count() > 0) {
        changed_.wait_for(lock, patience_, over);
        patience_ -= std::chrono::steady_clock::now() - started;
    }
    return events_[position] == nullptr ? nullptr : events_[position]->get();
}

void LayerGate::open() {
    std::vector<uintptr_t> entered;
    {
        std::lock_guard lock(mutex_);
        open_ = true;
        entered.swap(entered_);
    }
    for (const uintptr_t stream : entered)
        waiters_->leave(stream);
    flags_.raise_all();
    changed_.notify_all();
}

void LayerGate::enqueue_wait(int position, uintptr_t stream) {
    const DeviceScope scope(pool_->device());
    waits_.arrive(position, stream);  // without the lock, see there
    cudaEvent_t event = nullptr;
    {
        std::unique_lock lock(mutex_);
        if (events_[position] == nullptr && !open_ && waiters_->enter(stream)) {
            entered_.push_back(stream);
        } else {
            event = event_soon(position, lock);
        }
        if (event == nullptr && open_) return;
        if (event == nullptr) awaited_[position] = true;
    }
    if (event != nullptr) {  // stays recorded there as long as the gate lives
        require(cudaStreamWaitEvent(stream_of(stream), event, 0), "Making stream ", stream,
                " wait");
    } else {
        queue_wait(stream_of(stream), flags_.address(position), flags_.value());
    }
}

void LayerGate::layers_queued(int first, int last, cudaStream_t stream) {
    // Whoever waits for a flag goes on once it is written: the layers have landed before that.
    const auto& timed = waits_.events();
    auto event = std::make_shared<PooledEvent>((timed ? timed : pool_)->record(stream));
    if (timed) waits_.queued(first, last, event);
    std::vector<bool> written(static_cast<size_t>(last - first), false);
    for (;;) {
        std::vector<int> awaited;
        {
            std::lock_guard lock(mutex_);
            for (int position = first; position < last; ++position) {
                if (awaited_[position] && !written[position - first]) awaited.push_back(position);
            }
            if (awaited.empty()) {  // whoever comes from now on takes the event
                std::fill(events_.begin() + first, events_.begin() + last, event);
                break;
            }
        }
        for (const int position : awaited) {
            queue_write(stream, flags_.address(position), flags_.value());
            written[position - first] = true;
        }
        // Behind the writes of flags, so that the slot has no write outstanding once it is done.
        event = std::make_shared<PooledEvent>(pool_->record(stream));
    }
    changed_.notify_all();
    if (on_queued_) on_queued_(first, last, stream);
}

int LayerGate::wait_landed(int position, const DueTime& due) const {
    std::shared_ptr<PooledEvent> event;
    int next = position + 1;
    {
        std::lock_guard lock(mutex_);
        event = events_[position];
        while (next < static_cast<int>(events_.size()) && events_[next] == event)
            ++next;
    }
    event->wait("A copy on the GPU", &due);
    return next;
}

}  // namespace hicache::cuda
