#include "backends/cpu/pieced_copy.h"

#include <algorithm>
#include <utility>

#include "backends/cpu/stream_copy.h"

namespace hicache {
namespace {

// Copies from here on are streamed: more than a core's own caches hold.
constexpr int64_t kStreamedBytes = int64_t{4} << 20;

CopyStyle style_of(const CopyOrder& order) {
    const int64_t bytes = order.plan.num_pages() * order.page_bytes;
    return bytes >= kStreamedBytes ? CopyStyle::kStreaming : CopyStyle::kCached;
}

}  // namespace

PiecedCopy::PiecedCopy(std::shared_ptr<CopyJob> job, int64_t pages_per_piece)
    : job_(std::move(job)),
      style_(style_of(job_->order())),
      pages_per_piece_(pages_per_piece),
      pieces_per_layer_((job_->order().plan.num_pages() + pages_per_piece - 1) / pages_per_piece),
      pieces_(pieces_per_layer_ * static_cast<int64_t>(job_->order().layers.size())),
      missing_(pieces_),
      missing_of_layer_(new std::atomic<int64_t>[job_->order().layers.size()]) {
    for (size_t i = 0; i < job_->order().layers.size(); ++i)
        missing_of_layer_[i] = pieces_per_layer_;
    const CopyOrder& order = job_->order();
    if (order.digests && order.digests->taken())
        digests_.resize(static_cast<size_t>(order.plan.num_pages()) * order.layers.size());
}

void PiecedCopy::copy_piece(int64_t piece, const CopyGeometry& geometry, std::byte* host) {
    const CopyOrder& order = job_->order();
    const int64_t position = piece / pieces_per_layer_;
    const int layer = order.layers[static_cast<size_t>(position)];
    const int64_t begin = piece % pieces_per_layer_ * pages_per_piece_;
    const int64_t end = std::min(begin + pages_per_piece_, order.plan.num_pages());
    int64_t at = position * order.plan.num_pages() + begin;
    order.plan.visit_pages(begin, end, [&](PageRun run) {
        if (!digests_.empty()) {
            for (int64_t i = 0; i < run.count; ++i, ++at) {
                copy_page(geometry, layer, {run.host_page + i, run.device_page + i, 1}, host,
                          digests_[static_cast<size_t>(at)]);
            }
            return;
        }
        for (const Segment& segment : geometry.segments(layer)) {
            move_pages(order.direction, style_, segment, run, host);
        }
    });
    if (style_ == CopyStyle::kStreaming) stream_fence();
}

void PiecedCopy::copy_page(const CopyGeometry& geometry, int layer, const PageRun& page,
                           std::byte* host, uint64_t& found) const {
    const CopyOrder& order = job_->order();
    const auto& segments = geometry.segments(layer);
    const bool save = order.direction == Direction::kDeviceToHost;
    const bool wanted = order.digests->wanted(page.host_page, layer);
    if (wanted && save) found = device_digest(segments, page.device_page);
    // What is read again right away must not go past the caches.
    const CopyStyle style = wanted && !save ? CopyStyle::kCached : style_;
    for (const Segment& segment : segments)
        move_pages(order.direction, style, segment, page, host);
    if (wanted && !save) found = device_digest(segments, page.device_page);
}

bool PiecedCopy::work(const CopyGeometry& geometry, std::byte* host) {
    bool copied_last = false;
    for (;;) {
        const int64_t piece = next_.fetch_add(1, std::memory_order_relaxed);
        if (piece >= pieces_) return copied_last;
        copy_piece(piece, geometry, host);
        // The releases of all workers and the acquire of the last one order the bytes before the
        // report.
        const int64_t position = piece / pieces_per_layer_;
        if (missing_of_layer_[position].fetch_sub(1, std::memory_order_acq_rel) == 1 &&
            !job_->order().fails) {
            job_->layers_landed(static_cast<int>(position), static_cast<int>(position) + 1);
        }
        if (missing_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            copied_last = true;
            if (!digests_.empty()) job_->order().digests->settle(job_->order().plan, digests_);
        }
    }
}

}  // namespace hicache
