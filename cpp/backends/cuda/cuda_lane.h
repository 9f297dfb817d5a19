// One direction of the CUDA backend: a stream, a thread that queues copies on it, and a thread that
// sees them land.
//
// Copies start in submission order. The first thread waits on the host for what CUDA does not know
// (holds, copies of the other direction, fences of other backends); for events of the engine's
// streams our stream waits on the device. Not more than kMostQueued copies are queued at a time.
// A copy that is queued in no time, behind no other one, is queued by whoever submits it: to wake a
// thread would take as long.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "backends/cuda/copy_way.h"
#include "backends/cuda/device_clock.h"
#include "backends/cuda/digest_queue.h"
#include "backends/cuda/pinned_pool.h"
#include "transfer/backend.h"
#include "transfer/way_choice.h"

namespace hicache::cuda {

// What both lanes share.
struct LaneShared {
    LaneShared(int device_index, BackendSetup backend_setup)
        : device(device_index),
          setup(std::move(backend_setup)),
          pool(device, setup.host, setup.options),
          events(std::make_shared<EventPool>(device)),
          timed(std::make_shared<EventPool>(device, true)),
          clock(timed),
          waiters(std::make_shared<FlagWaiters>()) {}

    const int device;
    const BackendSetup setup;
    PinnedPool pool;
    const std::shared_ptr<EventPool> events;
    const std::shared_ptr<EventPool> timed;
    DeviceClock clock;
    const std::shared_ptr<FlagWaiters> waiters;
    std::mutex mutex;                                  // guards the queues of both lanes
    std::array<std::condition_variable, 2> may_queue;  // by direction: for the thread that queues
    std::atomic<bool> closing{false};
    std::chrono::steady_clock::time_point fence_limit;  // set before closing
    std::array<int64_t, 2> completed{0, 0};  // by direction: number of the copy that ended last
};

// A request waits for its loads; saves can take their time. Requires: the device is current.
[[nodiscard]] int priority_of(Direction direction);

class CudaLane {
  public:
    using Ways = std::array<std::unique_ptr<CopyWay>, kWays>;

    // ways: those that the limits say are possible, for copies whose host pages are all pinned.
    // pageable: by copy engine too, for all other ones. digests: nullptr where none are taken.
    // Requires: the device is current. Throws: std::runtime_error if CUDA refuses a stream.
    CudaLane(LaneShared& shared, Direction direction, Ways ways, std::unique_ptr<CopyWay> pageable,
             const WayLimits& limits, std::unique_ptr<DigestQueue> digests);
    ~CudaLane();  // requires: shared.closing
    CudaLane(const CudaLane&) = delete;
    CudaLane& operator=(const CudaLane&) = delete;

    void start();  // starts the threads, once
    void submit(std::shared_ptr<CopyJob> job);
    void hold();
    void release();
    void join();  // finishes every copy and ends the threads. Requires: shared.closing
    // Requires: the shared mutex is held.
    void check(int64_t counted) const;

  private:
    static constexpr size_t kMostQueued = 16;

    // Bytes and seconds of queueing up to which a copy is queued by whoever submits it.
    static constexpr int64_t kSmallCopy = int64_t{128} << 20;
    static constexpr double kShortQueueing = 50e-6;

    struct Queued {
        std::shared_ptr<CopyJob> job;
        std::shared_ptr<LayerGate> gate;
        std::shared_ptr<void> held;            // what the way needs until the end
        std::shared_ptr<DigestRun> digests{};  // nullptr: none are taken
        std::shared_ptr<PooledEvent> began;    // before its first byte; nullptr: nobody records
        std::shared_ptr<PooledEvent> last;     // behind what was queued of a copy that failed
        std::optional<std::string> error;
        std::optional<PlannedWay> planned;  // none yet: queue() plans
    };
    using Lock = std::unique_lock<std::mutex>;

    [[nodiscard]] std::condition_variable& may_queue() {
        return shared_.may_queue[static_cast<size_t>(index(direction_))];
    }
    void queue_copies();
    // Requires, the next three: the shared mutex is held.
    [[nodiscard]] bool startable(const CopyJob& job) const;
    // Whether the copy, the only one of the direction, is to be queued right now.
    [[nodiscard]] bool queued_at_once(Queued& copy) const;
    // Queues the first of waiting_ without the lock. Requires: nobody else is queueing.
    void queue_first(Lock& lock, std::optional<std::string> error);
    [[nodiscard]] PlannedWay plan(const CopyOrder& order) const;
    [[nodiscard]] Queued queue(const Queued& waiting, std::optional<std::string> error);
    // Queues the bytes of the copy, and the kernels that take its digests.
    void queue_bytes(Queued& copy, const WayChoice& choice);
    void mark_end(Queued& copy) noexcept;
    [[nodiscard]] bool pinned(const CopyOrder& order) const;
    void expect_end(CopyJob& job, double seconds);
    [[nodiscard]] CopyWay& take(Way way, bool pinned);
    void finish_copies();
    void wait_landed(Queued& copy);
    [[nodiscard]] bool recording() const;  // a timeline
    // The layers at [first, last) have landed.
    void land(Queued& copy, int first, int last);
    // Counts and records what streams waited for layers. ended: when the copy ended, for layers
    // that were never queued.
    void note_waits(CopyJob& job, const std::vector<StreamWaits::Wait>& waits, SteadyTime ended);
    void end(Queued& copy);

    LaneShared& shared_;
    const Direction direction_;
    const Ways ways_;
    const std::unique_ptr<CopyWay> pageable_;
    const WayLimits limits_;
    const std::unique_ptr<DigestQueue> digests_;
    cudaStream_t stream_ = nullptr;
    CopyWay* way_ = nullptr;  // of the copy queued last
    SteadyTime idle_from_{};  // when that one should have landed

    std::deque<Queued> waiting_;  // submitted, oldest first
    bool queueing_ = false;       // the first of them is on its way to queued_
    std::deque<Queued> queued_;   // on the stream
    // Changed under the shared mutex.
    const std::shared_ptr<std::atomic<int>> holds_ = std::make_shared<std::atomic<int>>(0);
    std::condition_variable may_finish_;  // for the second thread
    bool all_queued_ = false;             // the first thread has ended
    std::thread queuer_;
    std::thread finisher_;
};

}  // namespace hicache::cuda
