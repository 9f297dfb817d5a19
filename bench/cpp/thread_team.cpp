#include "thread_team.h"

#include <atomic>
#include <utility>

namespace hicache::bench {

ThreadTeam::ThreadTeam(int size) {
    for (int thread = 0; thread < size; ++thread) {
        threads_.emplace_back([this, thread] { run_thread(thread); });
    }
}

ThreadTeam::~ThreadTeam() {
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
    }
    changed_.notify_all();
    for (auto& thread : threads_)
        thread.join();
}

void ThreadTeam::run(const std::function<void(int)>& work) {
    std::unique_lock lock(mutex_);
    work_ = &work;
    working_ = size();
    ++round_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return working_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void ThreadTeam::for_each(int64_t items, const std::function<void(int, int64_t)>& work) {
    std::atomic<int64_t> next{0};
    run([&](int thread) {
        for (int64_t item = next++; item < items; item = next++)
            work(thread, item);
    });
}

void ThreadTeam::run_thread(int thread) {
    std::unique_lock lock(mutex_);
    for (int64_t done = 0;; ++done) {
        changed_.wait(lock, [&] { return closed_ || round_ > done; });
        if (closed_) return;
        const auto* work = work_;
        lock.unlock();
        std::exception_ptr error;
        try {
            (*work)(thread);
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        if (error && !error_) error_ = error;
        if (--working_ == 0) changed_.notify_all();
    }
}

}  // namespace hicache::bench
