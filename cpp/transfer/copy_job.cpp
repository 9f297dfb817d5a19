#include "transfer/copy_job.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/errors.h"
#include "core/nvtx_range.h"
#include "core/timeline.h"
#include "core/waiting.h"

namespace hicache {
namespace {

constexpr double kNanosecond = 1e-9;

int64_t nanoseconds_of(SteadyTime time) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

CopyJob::CopyJob(CopyOrder order, int num_layers, std::shared_ptr<TransferCounters> counters,
                 std::shared_ptr<Timeline> timeline)
    : order_(std::move(order)),
      counters_(std::move(counters)),
      positions_(static_cast<size_t>(num_layers), -1),
      trace_(std::move(timeline), order_),
      landed_(order_.layers.size(), false) {
    for (size_t i = 0; i < order_.layers.size(); ++i) {
        positions_[static_cast<size_t>(order_.layers[i])] = static_cast<int>(i);
    }
    if (trace_.on()) trace_.submitted(steady_nanoseconds());
}

void CopyJob::start() {
    std::lock_guard lock(mutex_);
    started_ = steady_nanoseconds();
    trace_.seen_by_host(gate_ != nullptr);
    trace_.started(started_);
}

void CopyJob::goes(Way way) {
    std::lock_guard lock(mutex_);
    trace_.goes(name(way));
}

void CopyJob::expect_end(SteadyTime end, DueTime::Duration takes) {
    {
        std::lock_guard lock(mutex_);
        due_.set(end, takes);
    }
    if (due_.awaited()) done_changed_.notify_all();
}

void CopyJob::began(SteadyTime at) {
    std::lock_guard lock(mutex_);
    trace_.began(nanoseconds_of(at));
}

void CopyJob::stream_waited(int position, uintptr_t stream, SteadyTime begin, SteadyTime end) {
    std::lock_guard lock(mutex_);
    trace_.waited(position, nanoseconds_of(begin), nanoseconds_of(end), stream);
}

void CopyJob::layers_landed(int first, int last, std::optional<SteadyTime> at) {
    {
        std::lock_guard lock(mutex_);
        // Before anyone can see it: nobody computes on a layer before it has landed.
        int64_t landed = at ? nanoseconds_of(*at) : 0;  // 0: nobody records it
        if (!at && trace_.on()) landed = steady_nanoseconds();
        std::fill(landed_.begin() + first, landed_.begin() + last, true);
        int reached = in_order_.load(std::memory_order_relaxed);
        while (reached < static_cast<int>(landed_.size()) && landed_[reached])
            ++reached;
        in_order_.store(reached, std::memory_order_release);
        if (landed > 0) trace_.landed(first, last, landed, gate_ != nullptr && !at);
    }
    landed_changed_.notify_all();
}

void CopyJob::finish(std::optional<std::string> error, int64_t pages_copied) {
    if (order_.digests) {
        const DigestVerdict& verdict = order_.digests->verdict();
        if (!verdict.corrupt.empty()) {
            error = verdict.error;
            pages_copied = std::min(pages_copied, verdict.corrupt.front());
        }
        counters_->verified(verdict.verified, static_cast<int64_t>(verdict.corrupt.size()));
    }
    const int64_t ended = steady_nanoseconds();
    const double seconds = seconds_until(ended);
    counters_->finished(error.has_value(), pages_copied, pages_copied * order_.page_bytes, seconds);
    {
        std::lock_guard lock(mutex_);
        trace_.ended(ended, pages_copied, error);
        error_ = std::move(error);
        pages_copied_ = pages_copied;
        seconds_ = seconds;
        done_.store(true, std::memory_order_release);
    }
    done_changed_.notify_all();
    landed_changed_.notify_all();
}

std::optional<std::string> CopyJob::error() const {
    return done() ? error_ : std::nullopt;  // no longer written once done
}

bool CopyJob::wait(Timeout timeout) {
    if (done()) return true;
    process_.require_same("ticket");
    const DueTime::Waiting waiting(due_);
    const SteadyTime limit = time_limit(timeout);
    std::unique_lock lock(mutex_);
    while (!done()) {
        const SteadyTime now = std::chrono::steady_clock::now();
        if (now >= limit) return false;
        if (due_.is_near(now)) {
            lock.unlock();
            look_for_end(limit);
            lock.lock();
        } else {
            wait_once(done_changed_, lock,
                      now < due_.from() ? std::min(limit, due_.from()) : limit);
        }
    }
    return true;
}

void CopyJob::look_for_end(SteadyTime limit) const {
    while (!done()) {
        const SteadyTime now = std::chrono::steady_clock::now();
        if (now >= limit || !due_.is_near(now)) return;
        std::this_thread::yield();
    }
}

int CopyJob::position_of(int layer) const {
    if (layer < 0 || layer >= static_cast<int>(positions_.size())) {
        bad_argument("Layer ", layer, " is outside 0 to ", positions_.size() - 1, ".");
    }
    return positions_[static_cast<size_t>(layer)];
}

bool CopyJob::position_done(int position) const {
    return position < in_order_.load(std::memory_order_acquire);
}

bool CopyJob::layer_done(int layer) const {
    const int position = position_of(layer);
    return position < 0 || position_done(position) || (done() && !error_);
}

bool CopyJob::wait_layer(int layer, Timeout timeout, bool goes_on) {
    const int position = position_of(layer);
    if (position < 0 || position_done(position) || done()) return true;
    process_.require_same("ticket");
    if (timeout && !(*timeout > 0)) return false;
    return wait_position(position, timeout, goes_on);
}

bool CopyJob::wait_position(int position, Timeout timeout, bool goes_on) {
    const NvtxRange range("wait for layer ", order_.layers[static_cast<size_t>(position)]);
    const auto over = [&] { return position_done(position) || done(); };
    std::unique_lock lock(mutex_);
    if (over()) return true;
    if (!counters_->time_waits() && !trace_.on())
        return wait_until_ready(landed_changed_, lock, timeout, over);
    const int64_t begin = steady_nanoseconds();
    const bool ready = wait_until_ready(landed_changed_, lock, timeout, over);
    const int64_t end = steady_nanoseconds();
    trace_.waited(position, begin, end, std::nullopt);
    if (counters_->time_waits()) counters_->waited(std::chrono::nanoseconds(end - begin), goes_on);
    return ready;
}

void CopyJob::wait_layer_on_stream(int layer, uintptr_t stream) {
    const int position = position_of(layer);
    process_.require_same("ticket");
    if (gate_) gate_->check_stream(stream);
    if (position < 0 || position_done(position) || done()) return;
    if (!gate_) bad_state("This device has no streams: wait for layer ", layer, " on the host.");
    const NvtxRange range("wait for layer on stream ", layer);
    gate_->enqueue_wait(position, stream);
}

int64_t CopyJob::pages_copied() const {
    return done() ? pages_copied_ : 0;
}
std::vector<int64_t> CopyJob::corrupt() const {
    if (!done() || !order_.digests) return {};
    return order_.digests->verdict().corrupt;  // no longer written once done
}
double CopyJob::seconds_until(int64_t ended) const {
    std::lock_guard lock(mutex_);
    return started_ > 0 ? static_cast<double>(ended - started_) * kNanosecond : 0;
}
double CopyJob::seconds() const {
    return done() ? seconds_ : 0;
}

}  // namespace hicache
