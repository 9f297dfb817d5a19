#include "tests/cuda/stream_threads.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "tests/cuda/stand_in.h"

namespace {

std::atomic<int64_t> deepest{0};
std::atomic<int> calls_to_failure{-1};
std::atomic<std::thread::id> spared{};
std::atomic<unsigned> streams{0};

}  // namespace

namespace hicache::testing_support {

void look_until(const std::function<bool()>& ready) {
    for (int looks = 0; !ready(); ++looks) {
        if (looks < 40) {
            std::this_thread::yield();
        } else {
            std::this_thread::sleep_for(std::chrono::microseconds(std::min(looks - 20, 200)));
        }
    }
}

void Mark::reach() {
    when = std::chrono::steady_clock::now();
    reached.store(true, std::memory_order_release);
}

void Mark::wait() const {
    look_until([this] { return reached.load(std::memory_order_acquire); });
}

void fail_queueing_after(int calls, bool here) {
    spared.store(here ? std::thread::id() : std::this_thread::get_id(), std::memory_order_relaxed);
    calls_to_failure.store(calls, std::memory_order_relaxed);
}

void fail_no_queueing() {
    calls_to_failure.store(-1, std::memory_order_relaxed);
}

bool queueing_fails() {
    int left = calls_to_failure.load(std::memory_order_relaxed);
    if (left < 0 || spared.load(std::memory_order_relaxed) == std::this_thread::get_id()) {
        return false;
    }
    while (left >= 0) {
        if (calls_to_failure.compare_exchange_weak(left, left - 1, std::memory_order_relaxed)) {
            return left == 0;
        }
    }
    return false;
}

int64_t deepest_queue() {
    return deepest.load(std::memory_order_relaxed);
}

void forget_deepest_queue() {
    deepest.store(0, std::memory_order_relaxed);
}

UserStream::UserStream() {
    static_cast<void>(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

UserStream::~UserStream() {
    static_cast<void>(cudaStreamDestroy(stream_));
}

void UserStream::run(std::function<void()> work) {
    stream_->queue(std::move(work));
}

void UserStream::wait() {
    static_cast<void>(cudaStreamSynchronize(stream_));
}

}  // namespace hicache::testing_support

CUstream_st::CUstream_st()
    : last_(new Operation), random_(streams.fetch_add(1, std::memory_order_relaxed) + 1) {
    std::thread([this, first = last_] { work(first); }).detach();
}

void CUstream_st::queue(std::function<void()> operation) {
    auto* const added = new Operation;
    added->run = std::move(operation);
    std::lock_guard lock(producers_);
    const int64_t waiting = queued_.fetch_add(1, std::memory_order_relaxed) + 1 -
                            complete_.load(std::memory_order_relaxed);
    int64_t most = deepest.load(std::memory_order_relaxed);
    while (waiting > most &&
           !deepest.compare_exchange_weak(most, waiting, std::memory_order_relaxed)) {
    }
    last_->next.store(added, std::memory_order_release);
    last_ = added;
}

bool CUstream_st::idle() const {
    return queued_.load(std::memory_order_relaxed) == complete_.load(std::memory_order_acquire);
}

CUstream_st::Operation* CUstream_st::next_of(const Operation& done) {
    Operation* next = nullptr;
    hicache::testing_support::look_until([&] {
        const bool ending = ending_.load(std::memory_order_acquire);
        next = done.next.load(std::memory_order_acquire);
        return next != nullptr || ending;
    });
    return next;
}

void CUstream_st::work(Operation* done) {
    while (Operation* const next = next_of(*done)) {
        delete std::exchange(done, next);
        rest();
        next->run();
        next->run = nullptr;
        complete_.fetch_add(1, std::memory_order_release);
    }
    delete done;
    delete this;
}

// Now and then, so that streams overtake each other.
void CUstream_st::rest() {
    const auto drawn = random_() % 64;
    if (drawn < 2) {
        std::this_thread::sleep_for(std::chrono::microseconds(random_() % 150));
    } else if (drawn < 10) {
        std::this_thread::yield();
    }
}

hicache::testing_support::Mark* CUevent_st::mark() {
    std::lock_guard lock(mutex_);
    return &marks_.emplace_back();
}

hicache::testing_support::Mark* CUevent_st::latest() {
    std::lock_guard lock(mutex_);
    return marks_.empty() ? nullptr : &marks_.back();
}
