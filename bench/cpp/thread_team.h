// Threads that wait between pieces of work, so that timed work does not start threads.
//
// Used by one thread at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace hicache::bench {

class ThreadTeam {
  public:
    // Requires: size > 0.
    explicit ThreadTeam(int size);
    ~ThreadTeam();
    ThreadTeam(const ThreadTeam&) = delete;
    ThreadTeam& operator=(const ThreadTeam&) = delete;

    [[nodiscard]] int size() const { return static_cast<int>(threads_.size()); }

    // Calls work(thread) once on each thread, waits for all, throws what the first of them threw.
    void run(const std::function<void(int thread)>& work);
    // Calls work(thread, item) for each item in [0, items), each on the thread that is free for it.
    void for_each(int64_t items, const std::function<void(int thread, int64_t item)>& work);

  private:
    void run_thread(int thread);

    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    const std::function<void(int)>* work_ = nullptr;
    int64_t round_ = 0;  // pieces of work given out so far
    int working_ = 0;
    bool closed_ = false;
    std::exception_ptr error_;

    std::vector<std::thread> threads_;
};

}  // namespace hicache::bench
