#include "transfer/copy_job.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "core/errors.h"
#include "core/waiting.h"

namespace hicache {
namespace {

double now() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(since).count();
}

}  // namespace

CopyJob::CopyJob(CopyOrder order, int num_layers, std::shared_ptr<TransferCounters> counters)
    : order_(std::move(order)),
      counters_(std::move(counters)),
      positions_(static_cast<size_t>(num_layers), -1),
      landed_(order_.layers.size(), false) {
    for (size_t i = 0; i < order_.layers.size(); ++i) {
        positions_[static_cast<size_t>(order_.layers[i])] = static_cast<int>(i);
    }
}

void CopyJob::start() {
    std::lock_guard lock(mutex_);
    started_ = now();
}

void CopyJob::expect_end(SteadyTime end, DueTime::Duration takes) {
    {
        std::lock_guard lock(mutex_);
        due_.set(end, takes);
    }
    if (due_.awaited()) done_changed_.notify_all();
}

void CopyJob::layers_landed(int first, int last) {
    {
        std::lock_guard lock(mutex_);
        std::fill(landed_.begin() + first, landed_.begin() + last, true);
        int reached = in_order_.load(std::memory_order_relaxed);
        while (reached < static_cast<int>(landed_.size()) && landed_[reached])
            ++reached;
        in_order_.store(reached, std::memory_order_release);
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
    const double seconds = seconds_since_start();
    counters_->finished(error.has_value(), pages_copied, pages_copied * order_.page_bytes, seconds);
    {
        std::lock_guard lock(mutex_);
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
    const auto over = [&] { return position_done(position) || done(); };
    std::unique_lock lock(mutex_);
    if (!counters_->time_waits()) return wait_until_ready(landed_changed_, lock, timeout, over);
    if (over()) return true;
    const SteadyTime from = std::chrono::steady_clock::now();
    const bool landed = wait_until_ready(landed_changed_, lock, timeout, over);
    lock.unlock();
    counters_->waited(std::chrono::steady_clock::now() - from, goes_on);
    return landed;
}

void CopyJob::wait_layer_on_stream(int layer, uintptr_t stream) {
    const int position = position_of(layer);
    process_.require_same("ticket");
    if (gate_) gate_->check_stream(stream);
    if (position < 0 || position_done(position) || done()) return;
    if (!gate_) bad_state("This device has no streams: wait for layer ", layer, " on the host.");
    gate_->enqueue_wait(position, stream);
}

int64_t CopyJob::pages_copied() const {
    return done() ? pages_copied_ : 0;
}
std::vector<int64_t> CopyJob::corrupt() const {
    if (!done() || !order_.digests) return {};
    return order_.digests->verdict().corrupt;  // no longer written once done
}
double CopyJob::seconds_since_start() const {
    std::lock_guard lock(mutex_);
    return started_ > 0 ? now() - started_ : 0;
}
double CopyJob::seconds() const {
    return done() ? seconds_ : 0;
}

}  // namespace hicache
