#include "backends/cpu/cpu_backend.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <utility>

#include "core/errors.h"
#include "transfer/fence_wait.h"

namespace hicache {
namespace {

constexpr int64_t kPieceBytes = int64_t{256} << 10;
constexpr int kMaxDefaultWorkers = 4;

int worker_count(int wanted) {
    if (wanted > 0) return wanted;
    const auto cores = static_cast<int>(std::thread::hardware_concurrency());
    return std::clamp(cores, 1, kMaxDefaultWorkers);
}

// Workers do not push a running thread off its core when they wake: whoever submits goes on at once
// and is not made to wait a time slice for its own copy (measured on two cores: 0.07 ms instead of
// 3 ms now and then). They still get their share of the cores.
void yield_to_submitters() {
#ifdef SCHED_BATCH
    const sched_param priority{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &priority);  // a wish: may fail
#endif
}

}  // namespace

CpuBackend::CpuBackend(BackendSetup setup)
    : setup_(std::move(setup)),
      pages_per_piece_(std::max<int64_t>(1, kPieceBytes / setup_.layer_bytes)) {
    try {
        for (const Direction direction : kDirections) {
            for (int i = 0; i < worker_count(setup_.options.workers); ++i) {
                lane(direction).workers.emplace_back([this, direction] { run_worker(direction); });
            }
        }
    } catch (...) {
        CpuBackend::close(0);
        throw;
    }
}

CpuBackend::~CpuBackend() {
    CpuBackend::close(0);
}

FencePtr CpuBackend::record(uintptr_t stream) {
    if (stream != 0) bad_argument("The cpu device has no stream handle ", stream, "; only 0.");
    return nullptr;
}

void CpuBackend::submit(std::shared_ptr<CopyJob> job) {
    Lane& mine = lane(job->order().direction);
    {
        std::lock_guard lock(mutex_);
        mine.queue.push_back(std::move(job));
    }
    mine.changed.notify_one();
}

void CpuBackend::hold(Direction direction) {
    std::lock_guard lock(mutex_);
    ++lane(direction).holds;
}

void CpuBackend::release(Direction direction) {
    Lane& mine = lane(direction);
    {
        std::lock_guard lock(mutex_);
        if (mine.holds == 0) bad_state("Direction ", name(direction), " is not held.");
        --mine.holds;
    }
    mine.changed.notify_all();
}

void CpuBackend::run_worker(Direction direction) {
    yield_to_submitters();
    Lane& mine = lane(direction);
    Lock lock(mutex_);
    for (;;) {
        if (mine.running && !mine.running->all_claimed()) {
            const auto copy = mine.running;
            lock.unlock();
            const bool copied_last = copy->work(*setup_.geometry, setup_.host.data());
            lock.lock();
            if (copied_last) end(mine, copy->job(), std::nullopt);
        } else if (!mine.running && !mine.starting && !mine.queue.empty()) {
            start_next(direction, lock);
        } else if (closing_ && mine.queue.empty()) {
            return;  // what still runs is finished by those who have claimed its pieces
        } else {
            mine.changed.wait(lock);
        }
    }
}

bool CpuBackend::startable(const Lane& mine, const Lane& other, const CopyJob& job) const {
    return (mine.holds == 0 || closing_) && other.completed >= job.order().wait_for;
}

bool CpuBackend::out_of_time() const {
    return closing_ && std::chrono::steady_clock::now() >= fence_limit_;
}

void CpuBackend::start_next(Direction direction, Lock& lock) {
    Lane& mine = lane(direction);
    mine.starting = true;
    const std::shared_ptr<CopyJob> job = mine.queue.front();
    lock.unlock();
    auto error = wait_for_fences(job->order().after, [this] { return out_of_time(); });
    auto copy = std::make_shared<PiecedCopy>(job, pages_per_piece_);
    lock.lock();
    const Lane& other = lane(opposite(direction));
    mine.changed.wait(lock, [&] { return startable(mine, other, *job); });
    if (job->order().digests && !error) {
        lock.unlock();
        job->order().digests->begin(job->order().plan);
        lock.lock();
    }
    mine.queue.pop_front();
    mine.starting = false;
    job->start();
    mine.running = std::move(copy);
    if (error || mine.running->empty()) {
        end(mine, *job, std::move(error));
    } else {
        mine.changed.notify_all();
    }
}

void CpuBackend::end(Lane& mine, CopyJob& job, std::optional<std::string> error) {
    const CopyOrder& order = job.order();
    const int64_t copied = error ? 0 : order.plan.num_pages();
    if (order.fails && !error) error = message("injected failure after ", copied, " pages");
    mine.running.reset();
    mine.completed = order.sequence;
    job.finish(std::move(error), copied);  // in submission order, hence under the lock
    for (Lane& each : lanes_)
        each.changed.notify_all();
}

void CpuBackend::close(double fence_seconds) {
    {
        std::lock_guard lock(mutex_);
        if (!closing_) {
            const auto grace = std::chrono::duration<double>(std::clamp(fence_seconds, 0.0, 1e9));
            fence_limit_ = std::chrono::steady_clock::now() +
                           std::chrono::duration_cast<std::chrono::steady_clock::duration>(grace);
            closing_ = true;
        }
    }
    for (Lane& each : lanes_)
        each.changed.notify_all();
    for (Lane& each : lanes_) {
        for (auto& worker : each.workers)
            worker.join();
        each.workers.clear();
    }
}

void CpuBackend::check() const {
    std::lock_guard lock(mutex_);
    for (const Direction direction : kDirections) {
        const Lane& mine = lanes_[index(direction)];
        const auto here = static_cast<int64_t>(mine.queue.size()) + (mine.running ? 1 : 0);
        const int64_t counted = setup_.counters[index(direction)]->totals().in_flight();
        if (here != counted) {
            bad_state(name(direction), " copies queued or running ", here, " != in flight ",
                      counted);
        }
        int64_t previous = mine.completed + (mine.running ? 1 : 0);
        for (const auto& job : mine.queue) {
            if (job->order().sequence != previous + 1) {
                bad_state(name(direction), " copy ", job->order().sequence, " follows copy ",
                          previous);
            }
            ++previous;
        }
    }
}

}  // namespace hicache
