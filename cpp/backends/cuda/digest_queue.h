// Takes the digests of a lane's copies on a stream of its own, beside the copies.
//
// A save's pages are read while they are copied. Those of a load are read group by group once they
// have landed, some groups at a time. Nothing waits for digests but the end of the copy, and a
// later copy of the lane that writes the very pages.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/digest_kernel.h"
#include "backends/cuda/event_pool.h"
#include "backends/cuda/layer_gate.h"
#include "backends/cuda/page_tables.h"
#include "backends/cuda/queue_limit.h"
#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"

namespace hicache::cuda {

// Pinned words that kernels write, used again when their copy is over.
class DigestWords {
  public:
    // Throws: std::runtime_error if no pinned memory can be had.
    explicit DigestWords(size_t count);

    [[nodiscard]] size_t count() const { return count_; }
    [[nodiscard]] const uint64_t* host() const { return static_cast<uint64_t*>(memory_.get()); }
    [[nodiscard]] uint64_t* device() const { return device_; }

  private:
    const size_t count_;
    const PinnedMemory memory_;
    uint64_t* device_ = nullptr;
};

// Thread-safe.
class DigestWordsPool : public std::enable_shared_from_this<DigestWordsPool> {
  public:
    // Both: requires: the device is current. Throws: as DigestWords.
    void prepare(size_t count, int how_many);
    [[nodiscard]] std::shared_ptr<DigestWords> take(size_t count);

  private:
    std::mutex mutex_;
    std::vector<std::unique_ptr<DigestWords>> idle_;
};

// The digests of one copy, on their way.
struct DigestRun {
    std::shared_ptr<PageTable> table;
    std::shared_ptr<DigestWords> words;  // [position in the order's layers][page of the plan]
    std::shared_ptr<PooledEvent> end;    // behind the last of them; nullptr until all are queued

    [[nodiscard]] std::span<const uint64_t> found() const {
        return {words->host(), words->count()};
    }
};

class DigestQueue {
  public:
    static constexpr int kBlocks = 8;

    // batch_bytes: of layers that land before their digests are queued, so that small groups share
    // a launch. Requires, and of all methods: the device is current. Throws, and all of them:
    // std::runtime_error if CUDA refuses.
    DigestQueue(std::shared_ptr<const CopyGeometry> geometry, int priority, int64_t batch_bytes,
                std::shared_ptr<EventPool> events);
    ~DigestQueue();
    DigestQueue(const DigestQueue&) = delete;
    DigestQueue& operator=(const DigestQueue&) = delete;

    // For one thread at a time, in the order of the copies:
    // Makes `stream` wait for digests of earlier copies whose pages this load writes.
    void order_behind_readers(const CopyOrder& order, cudaStream_t stream);
    // The copy is going to be queued. A save's digests are queued here, behind its fences; those of
    // a load when the gate hears of its layers. The order lives until the copy has ended. run: set
    // to what has to live until then, also if this throws.
    void begin(const CopyOrder& order, LayerGate& gate, std::shared_ptr<DigestRun>& run);
    // All layers of the copy are queued.
    void end(const CopyOrder& order, DigestRun& run);
    // What is queued on the stream from now on runs behind all digests queued so far.
    void join(cudaStream_t stream);

  private:
    void landed(const CopyOrder& order, const DigestRun& run, int first, int last,
                cudaStream_t stream);
    void take(const CopyOrder& order, const DigestRun& run, int first, int last);

    const std::shared_ptr<const CopyGeometry> geometry_;
    const int64_t batch_bytes_;
    const std::shared_ptr<EventPool> events_;
    cudaStream_t stream_ = nullptr;
    std::optional<QueueLimit> limit_;
    DeviceArray<DigestSegment> segments_;
    DeviceArray<DigestLayer> layers_;
    const std::shared_ptr<PageTables> tables_ = std::make_shared<PageTables>();
    const std::shared_ptr<DigestWordsPool> words_ = std::make_shared<DigestWordsPool>();
    int waiting_first_ = 0;  // positions [waiting_first, waiting_last) of the copy that is being
    int waiting_last_ = 0;   // queued have landed and are not taken yet
    std::vector<int64_t> read_by_;  // by device page: number of the load whose digests read it last
    std::deque<std::pair<int64_t, std::shared_ptr<PooledEvent>>> ends_;  // of loads, oldest first
};

}  // namespace hicache::cuda
