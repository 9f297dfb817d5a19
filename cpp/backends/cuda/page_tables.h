// Tables in device memory of which page goes where, one a copy in flight, used again afterwards.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/page_kernel.h"
#include "transfer/copy_plan.h"

namespace hicache::cuda {

class PageTable {
  public:
    explicit PageTable(int64_t capacity);

    [[nodiscard]] int64_t capacity() const { return capacity_; }
    [[nodiscard]] const PagePair* pairs() const {
        return static_cast<const PagePair*>(device_.get());
    }
    // Queues the plan's pages. Requires: no queued copy uses the table any more.
    void upload(const CopyPlan& plan, cudaStream_t stream);

  private:
    const int64_t capacity_;
    PinnedMemory host_;
    DeviceMemory device_;
};

// Thread-safe. Tables come back when their last user lets go.
class PageTables : public std::enable_shared_from_this<PageTables> {
  public:
    // Makes some tables now: memory that is pinned while copies run may wait for them.
    // Both: requires: the device is current. Throws: std::runtime_error if there is no memory.
    void prepare();
    [[nodiscard]] std::shared_ptr<PageTable> upload(const CopyPlan& plan, cudaStream_t stream);

  private:
    [[nodiscard]] std::unique_ptr<PageTable> take(int64_t pages);

    std::mutex mutex_;
    std::vector<std::unique_ptr<PageTable>> idle_;
};

}  // namespace hicache::cuda
