// The CPU backend: worker threads for each direction, memcpy underneath.
//
// Device memory is ordinary memory of this process. The semantics are those of a GPU backend:
// copies are asynchronous, start in submission order, and every layer can be waited for. The
// workers of a direction share the pieces of one copy and run one copy after the other.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/pieced_copy.h"
#include "transfer/backend.h"

namespace hicache {

class CpuBackend : public Backend {
  public:
    // setup.options.workers = 0: as many as the machine has cores, four at most.
    explicit CpuBackend(BackendSetup setup);
    ~CpuBackend() override;

    FencePtr record(uintptr_t stream) override;
    void submit(std::shared_ptr<CopyJob> job) override;
    void hold(Direction direction) override;
    void release(Direction direction) override;
    void close(double fence_seconds) override;
    void check() const override;

  private:
    // One direction. Guarded by mutex_.
    struct Lane {
        std::condition_variable changed;
        std::deque<std::shared_ptr<CopyJob>> queue;  // not started, oldest first
        std::shared_ptr<PiecedCopy> running;
        bool starting = false;  // a worker waits for the head of the queue to become startable
        int holds = 0;
        int64_t completed = 0;  // number of the copy that ended last
        std::vector<std::thread> workers;
    };
    using Lock = std::unique_lock<std::mutex>;

    void run_worker(Direction direction);
    void start_next(Direction direction, Lock& lock);
    [[nodiscard]] bool startable(const Lane& lane, const Lane& other, const CopyJob& job) const;
    [[nodiscard]] bool out_of_time() const;
    void end(Lane& lane, CopyJob& job, std::optional<std::string> error);
    [[nodiscard]] Lane& lane(Direction direction) { return lanes_[index(direction)]; }

    const BackendSetup setup_;
    const int64_t pages_per_piece_;

    mutable std::mutex mutex_;
    std::array<Lane, 2> lanes_;
    std::atomic<bool> closing_{false};
    std::chrono::steady_clock::time_point fence_limit_;  // set before closing_
};

}  // namespace hicache
