#include "backends/cuda/page_tables.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {
namespace {

constexpr uint64_t kSmallestTable = 1024;  // pages
constexpr size_t kPreparedTables = 4;

}  // namespace

PageTable::PageTable(int64_t capacity)
    : capacity_(capacity),
      host_(static_cast<size_t>(capacity) * sizeof(PagePair)),
      device_(static_cast<size_t>(capacity) * sizeof(PagePair)) {}

void PageTable::upload(const CopyPlan& plan, cudaStream_t stream) {
    auto* pair = static_cast<PagePair*>(host_.get());
    for (const PageRun& run : plan.runs()) {
        for (int64_t i = 0; i < run.count; ++i)
            *pair++ = {run.host_page + i, run.device_page + i};
    }
    const size_t bytes = static_cast<size_t>(plan.num_pages()) * sizeof(PagePair);
    require(cudaMemcpyAsync(device_.get(), host_.get(), bytes, cudaMemcpyHostToDevice, stream),
            "Copying a table of ", plan.num_pages(), " pages");
}

void PageTables::prepare() {
    std::lock_guard lock(mutex_);
    while (idle_.size() < kPreparedTables)
        idle_.push_back(std::make_unique<PageTable>(static_cast<int64_t>(kSmallestTable)));
}

std::shared_ptr<PageTable> PageTables::upload(const CopyPlan& plan, cudaStream_t stream) {
    std::shared_ptr<PageTable> table(take(plan.num_pages()).release(),
                                     [self = shared_from_this()](PageTable* used) {
                                         std::unique_ptr<PageTable> held(used);
                                         std::lock_guard lock(self->mutex_);
                                         self->idle_.push_back(std::move(held));
                                     });
    table->upload(plan, stream);
    return table;
}

std::unique_ptr<PageTable> PageTables::take(int64_t pages) {
    {
        std::lock_guard lock(mutex_);
        const auto fits = std::find_if(idle_.begin(), idle_.end(),
                                       [&](const auto& t) { return t->capacity() >= pages; });
        if (fits != idle_.end()) {
            auto table = std::move(*fits);
            idle_.erase(fits);
            return table;
        }
    }
    const auto capacity = std::bit_ceil(std::max(static_cast<uint64_t>(pages), kSmallestTable));
    return std::make_unique<PageTable>(static_cast<int64_t>(capacity));
}

}  // namespace hicache::cuda
