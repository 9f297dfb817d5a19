// A running copy cut into pieces that the workers of a direction share.
//
// A piece is some pages of one layer. Pieces are claimed in layer order without a lock and without
// a barrier between layers: a worker may begin a layer while others end the one before, and a layer
// has landed when its last piece is copied. Thread-safe.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/move_pages.h"
#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"

namespace hicache {

class PiecedCopy {
  public:
    // pages_per_piece: > 0.
    PiecedCopy(std::shared_ptr<CopyJob> job, int64_t pages_per_piece);

    [[nodiscard]] CopyJob& job() const { return *job_; }
    [[nodiscard]] bool empty() const { return pieces_ == 0; }
    [[nodiscard]] bool all_claimed() const {
        return next_.load(std::memory_order_relaxed) >= pieces_;
    }

    // Copies pieces until none is left to claim, and reports the layers that land. Returns whether
    // this call copied the last missing piece: true in exactly one of the workers, once digests are
    // settled.
    bool work(const CopyGeometry& geometry, std::byte* host);

  private:
    void copy_piece(int64_t piece, const CopyGeometry& geometry, std::byte* host);
    // One page of one layer, with its digest. found: where that goes.
    void copy_page(const CopyGeometry& geometry, int layer, const PageRun& page, std::byte* host,
                   uint64_t& found) const;

    const std::shared_ptr<CopyJob> job_;
    const CopyStyle style_;
    const int64_t pages_per_piece_;
    const int64_t pieces_per_layer_;
    const int64_t pieces_;
    std::vector<uint64_t> digests_;  // [position][page of the plan], where some are taken
    std::atomic<int64_t> next_{0};
    std::atomic<int64_t> missing_;
    std::unique_ptr<std::atomic<int64_t>[]> missing_of_layer_;  // by position
};

}  // namespace hicache
