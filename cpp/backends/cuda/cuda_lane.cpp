#include "backends/cuda/cuda_lane.h"

#include <sys/prctl.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <vector>

#include "backends/cuda/cuda_call.h"
#include "core/nvtx_range.h"
#include "transfer/fence_wait.h"
#include "transfer/way_choice.h"

namespace hicache::cuda {
namespace {

cudaStream_t make_stream(Direction direction) {
    cudaStream_t stream = nullptr;
    require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority_of(direction)),
            "Creating a stream");
    return stream;
}

// Linux lets a sleep of this thread take 50 us longer than asked unless told otherwise.
void sleep_exactly() {
    prctl(PR_SET_TIMERSLACK, 1000);  // nanoseconds
}

std::vector<FencePtr> host_fences(const CopyOrder& order) {
    std::vector<FencePtr> fences;
    for (const FencePtr& fence : order.after) {
        if (dynamic_cast<const EventFence*>(fence.get()) == nullptr) fences.push_back(fence);
    }
    return fences;
}

}  // namespace

void order_after_fences(const CopyOrder& order, cudaStream_t stream) {
    for (const FencePtr& fence : order.after) {
        if (const auto* event = dynamic_cast<const EventFence*>(fence.get())) {
            require(cudaStreamWaitEvent(stream, event->event(), 0), "Waiting for an event");
        }
    }
}

int priority_of(Direction direction) {
    int lowest = 0;
    int highest = 0;
    require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "Asking for stream priorities");
    return direction == Direction::kHostToDevice ? highest : lowest;
}

CudaLane::CudaLane(LaneShared& shared, Direction direction, Ways ways,
                   std::unique_ptr<CopyWay> pageable, const WayLimits& limits,
                   std::unique_ptr<DigestQueue> digests)
    : shared_(shared),
      direction_(direction),
      ways_(std::move(ways)),
      pageable_(std::move(pageable)),
      limits_(limits),
      digests_(std::move(digests)),
      stream_(make_stream(direction)) {}

void CudaLane::start() {
    queuer_ = std::thread([this] {
        sleep_exactly();
        queue_copies();
    });
    finisher_ = std::thread([this] {
        sleep_exactly();
        finish_copies();
    });
}

CudaLane::~CudaLane() {
    join();
    static_cast<void>(accept(cudaStreamDestroy(stream_)));
}

void CudaLane::submit(std::shared_ptr<CopyJob> job) {
    std::shared_ptr<LayerGate> gate;
    std::optional<std::string> error;
    try {
        gate = std::make_shared<LayerGate>(
            shared_.events,
            shared_.setup.options.time_waits || recording() ? shared_.timed : nullptr,
            shared_.waiters, holds_, static_cast<int>(job->order().layers.size()));
        job->set_gate(gate);
    } catch (const std::exception& failure) {  // the copy has a number: it ends in its turn
        error = failure.what();
    }
    Lock lock(shared_.mutex);
    const bool idle = waiting_.empty() && queued_.empty();
    waiting_.push_back({std::move(job), std::move(gate), nullptr, nullptr, nullptr, nullptr,
                        std::move(error), std::nullopt});
    if (idle && queued_at_once(waiting_.front())) {
        queue_first(lock, std::nullopt);
        if (waiting_.empty() && !shared_.closing) return;
    }
    lock.unlock();
    may_queue().notify_one();
}

bool CudaLane::queued_at_once(Queued& copy) const {
    const CopyOrder& order = copy.job->order();
    if (order.plan.num_pages() * order.page_bytes > kSmallCopy || !startable(*copy.job) ||
        !host_fences(order).empty() || copy.error || shared_.closing || !pinned(order))
        return false;  // calls that copy pageable memory wait for the stream
    try {
        copy.planned = plan(order);
        return copy.planned->estimate.queueing <= kShortQueueing;
    } catch (const std::exception&) {
        return false;  // no memory; the other thread says so
    }
}

void CudaLane::hold() {
    std::lock_guard lock(shared_.mutex);
    ++*holds_;
}

void CudaLane::release() {
    {
        std::lock_guard lock(shared_.mutex);
        if (*holds_ == 0) bad_state("Direction ", name(direction_), " is not held.");
        --*holds_;
    }
    may_queue().notify_one();
}

void CudaLane::join() {
    for (std::thread* thread : {&queuer_, &finisher_}) {
        if (thread->joinable()) thread->join();
    }
}

bool CudaLane::startable(const CopyJob& job) const {
    return (*holds_ == 0 || shared_.closing) && queued_.size() < kMostQueued &&
           shared_.completed[index(opposite(direction_))] >= job.order().wait_for;
}

void CudaLane::queue_copies() {
    const DeviceScope scope(shared_.device);
    Lock lock(shared_.mutex);
    for (;;) {
        may_queue().wait(lock,
                         [&] { return waiting_.empty() ? shared_.closing.load() : !queueing_; });
        if (waiting_.empty()) break;
        const std::shared_ptr<CopyJob> next = waiting_.front().job;
        lock.unlock();
        // At the end the host waits for all of them, so that it can give up.
        const CopyOrder& order = next->order();
        auto error = wait_for_fences(shared_.closing ? order.after : host_fences(order), [this] {
            return shared_.closing && std::chrono::steady_clock::now() >= shared_.fence_limit;
        });
        lock.lock();
        may_queue().wait(lock, [&] { return startable(*next); });
        queue_first(lock, std::move(error));
    }
    all_queued_ = true;
    may_finish_.notify_one();
}

void CudaLane::queue_first(Lock& lock, std::optional<std::string> error) {
    const Queued next = waiting_.front();
    queueing_ = true;
    lock.unlock();
    next.job->start();
    Queued queued = queue(next, std::move(error));
    lock.lock();
    queueing_ = false;
    waiting_.pop_front();
    queued_.push_back(std::move(queued));
    may_finish_.notify_one();
}

bool CudaLane::pinned(const CopyOrder& order) const {
    return shared_.pool.pinned(*shared_.setup.geometry, order);
}

PlannedWay CudaLane::plan(const CopyOrder& order) const {
    const WayLimits limits = pinned(order) ? limits_ : WayLimits{Way::kDirect, 0, 0};
    return choose_way(*shared_.setup.geometry, order, *shared_.setup.options.link_curve, limits);
}

void CudaLane::expect_end(CopyJob& job, double seconds) {
    const auto takes =
        std::chrono::duration_cast<DueTime::Duration>(std::chrono::duration<double>(seconds));
    idle_from_ = std::max(idle_from_, std::chrono::steady_clock::now()) + takes;
    job.expect_end(idle_from_, takes);
}

CopyWay& CudaLane::take(Way way, bool pinned) {
    shared_.setup.counters[index(direction_)]->took(way);
    CopyWay* const next = pinned ? ways_[static_cast<size_t>(way)].get() : pageable_.get();
    if (way_ != nullptr && way_ != next) way_->join(stream_);
    way_ = next;
    return *next;
}

void CudaLane::mark_end(Queued& copy) noexcept {
    try {
        if (way_ != nullptr) way_->join(stream_);
        if (digests_) digests_->join(stream_);
        copy.last = std::make_shared<PooledEvent>(shared_.events->record(stream_));
    } catch (const std::exception&) {
        // The device is lost: nothing that was queued runs any more.
    }
}

CudaLane::Queued CudaLane::queue(const Queued& waiting, std::optional<std::string> error) {
    Queued queued = waiting;
    if (!queued.error) queued.error = std::move(error);
    const CopyOrder& order = queued.job->order();
    const NvtxRange range(
        direction_ == Direction::kHostToDevice ? "queue h2d copy " : "queue d2h copy ",
        order.sequence);
    if (queued.error || order.plan.num_pages() == 0) return queued;
    try {
        order_after_fences(order, stream_);
        const auto [choice, estimate] = waiting.planned ? *waiting.planned : plan(order);
        expect_end(*queued.job, estimate.total);
        if (recording())
            queued.began = std::make_shared<PooledEvent>(shared_.timed->record(stream_));
        queue_bytes(queued, choice);
    } catch (const std::exception& failure) {
        queued.error = failure.what();
        mark_end(queued);
    }
    queued.gate->on_queued(nullptr);
    return queued;
}

void CudaLane::queue_bytes(Queued& copy, const WayChoice& choice) {
    const CopyOrder& order = copy.job->order();
    if (order.digests) order.digests->begin(order.plan);
    if (digests_) {
        digests_->order_behind_readers(order, stream_);
        digests_->begin(order, *copy.gate, copy.digests);
    }
    const auto [way, group_layers] = choice;
    copy.job->goes(way);
    take(way, pinned(order)).queue(order, group_layers, stream_, *copy.gate, copy.held);
    if (digests_) digests_->end(order, *copy.digests);
}

void CudaLane::finish_copies() {
    const DeviceScope scope(shared_.device);
    Lock lock(shared_.mutex);
    for (;;) {
        may_finish_.wait(lock, [&] { return !queued_.empty() || all_queued_; });
        if (queued_.empty()) return;
        Queued copy = queued_.front();
        lock.unlock();
        wait_landed(copy);
        if (copy.gate) {
            const SteadyTime ended = std::chrono::steady_clock::now();
            copy.gate->open();
            note_waits(*copy.job, copy.gate->waits().end(), ended);
        }
        copy.held.reset();
        copy.digests.reset();
        lock.lock();
        end(copy);
    }
}

void CudaLane::wait_landed(Queued& copy) {
    const CopyOrder& order = copy.job->order();
    try {
        if (copy.error) {  // not the whole stream: later copies may wait for whoever waits for us
            if (copy.last) copy.last->wait("A copy on the GPU", &copy.job->due());
        } else if (order.plan.num_pages() > 0) {
            const auto layers = static_cast<int>(order.layers.size());
            for (int position = 0; position < layers;) {
                const int next = copy.gate->wait_landed(position, copy.job->due());
                land(copy, position, next);
                position = next;
            }
            if (copy.digests) {
                copy.digests->end->wait("Digests on the GPU");
                order.digests->settle(order.plan, copy.digests->found());
            }
        }
    } catch (const std::exception& failure) {
        if (!copy.error) copy.error = failure.what();
    }
    if (copy.error && order.digests) order.digests->fail(order.plan);
}

bool CudaLane::recording() const {
    return shared_.setup.timeline && shared_.setup.timeline->on();
}

void CudaLane::land(Queued& copy, int first, int last) {
    std::optional<SteadyTime> at;
    if (recording()) {
        if (const auto began = copy.began ? shared_.clock.time_of(*copy.began) : std::nullopt)
            copy.job->began(*began);
        copy.began.reset();
        if (const auto landed = copy.gate->waits().landed(first))
            at = shared_.clock.time_of(*landed);
    }
    if (!copy.job->order().fails) copy.job->layers_landed(first, last, at);
    note_waits(*copy.job, copy.gate->waits().take(first, last), {});
}

void CudaLane::note_waits(CopyJob& job, const std::vector<StreamWaits::Wait>& waits,
                          SteadyTime ended) {
    TransferCounters& counters = *shared_.setup.counters[index(direction_)];
    std::vector<uintptr_t> released;  // streams that were let go at the end, from their first wait
    for (const StreamWaits::Wait& wait : waits) {
        std::optional<SteadyTime> arrived;
        std::optional<std::chrono::nanoseconds> waited;
        if (wait.landed) {
            waited = time_between(wait.arrival, *wait.landed);
        } else if (std::ranges::find(released, wait.stream) == released.end()) {
            released.push_back(wait.stream);
            arrived = shared_.clock.time_of(wait.arrival);
            if (arrived) waited = ended - *arrived;
        }
        // Else the stream came when the layer had landed, or is not there yet.
        if (!waited || waited->count() <= 0) continue;
        if (counters.time_waits()) counters.waited(*waited);
        if (!recording()) continue;
        if (!arrived) arrived = shared_.clock.time_of(wait.arrival);
        if (arrived) job.stream_waited(wait.position, wait.stream, *arrived, *arrived + *waited);
    }
}

void CudaLane::end(Queued& copy) {
    const CopyOrder& order = copy.job->order();
    const int64_t copied = copy.error ? 0 : order.plan.num_pages();
    if (order.fails && !copy.error)
        copy.error = message("injected failure after ", copied, " pages");
    queued_.pop_front();
    shared_.completed[index(direction_)] = order.sequence;
    copy.job->finish(std::move(copy.error), copied);  // in submission order, hence under the lock
    for (std::condition_variable& each : shared_.may_queue)
        each.notify_one();
}

void CudaLane::check(int64_t counted) const {
    const auto here = static_cast<int64_t>(waiting_.size() + queued_.size());
    if (here != counted) {
        bad_state(name(direction_), " copies waiting or queued ", here, " != in flight ", counted);
    }
    int64_t previous = shared_.completed[index(direction_)];
    for (const auto* copies : {&queued_, &waiting_}) {
        for (const Queued& copy : *copies) {
            if (copy.job->order().sequence != ++previous) {
                bad_state(name(direction_), " copy ", copy.job->order().sequence, " follows copy ",
                          previous - 1);
            }
        }
    }
}

}  // namespace hicache::cuda
