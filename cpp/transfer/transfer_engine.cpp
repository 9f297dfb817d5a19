#include "transfer/transfer_engine.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/errors.h"
#include "core/nvtx_range.h"

namespace hicache {
namespace {

int64_t largest_layer(const PoolFormat& format) {
    int64_t largest = 1;
    for (int layer = 0; layer < format.num_layers(); ++layer) {
        largest = std::max(largest, format.layer_bytes(layer));
    }
    return largest;
}

bool pending(const FencePtr& fence) {
    return !fence->done();
}

// page_first_direct is the layout whose copies go by copy engine, unless told otherwise.
CopyOptions complete(CopyOptions options, const HostLayout& layout) {
    if (layout.kind() == LayoutKind::kPageFirstDirect && !options.way) options.way = Way::kDirect;
    if (!options.link_curve) options.link_curve = typical_link_curve();
    return options;
}

// Checks the parts against each other before anything is created.
std::shared_ptr<const CopyGeometry> fit(const PoolFormat& format, int64_t device_pages,
                                        const std::vector<DeviceBuffer>& device_buffers,
                                        const HostMemory& host, const HostLayout& layout,
                                        const CopyOptions& options) {
    if (!(layout.format() == format)) {
        bad_argument("The host layout was made for another format: its record has ",
                     layout.format().page_bytes(), " bytes, the engine's ", format.page_bytes(),
                     ".");
    }
    if (layout.total_bytes() > host.nbytes()) {
        bad_argument("A host pool of ", layout.num_pages(), " pages takes ", layout.total_bytes(),
                     " bytes, the host memory has ", host.nbytes(), ".");
    }
    if (options.workers < 0) {
        bad_argument("workers is ", options.workers, "; it must not be negative.");
    }
    if (options.kernel_blocks < 0) {
        bad_argument("kernel_blocks is ", options.kernel_blocks, "; it must not be negative.");
    }
    if (options.staging_bytes < 0) {
        bad_argument("staging_bytes is ", options.staging_bytes, "; it must not be negative.");
    }
    if (options.pin_chunk_bytes < 0) {
        bad_argument("pin_chunk_bytes is ", options.pin_chunk_bytes, "; it must not be negative.");
    }
    const auto& digests = options.digests;
    if (digests &&
        (digests->pages() != layout.num_pages() || digests->layers() != format.num_layers())) {
        bad_argument("The digests are of ", digests->pages(), " pages and ", digests->layers(),
                     " layers, the host pool has ", layout.num_pages(), " and ",
                     format.num_layers(), ".");
    }
    return std::make_shared<const CopyGeometry>(layout, device_pages, device_buffers);
}

std::shared_ptr<DigestTable> table_of(const CopyOptions& options, const HostLayout& layout) {
    auto table = options.digests;
    if (options.verify == Verify::kOff) return table;
    if (!table) {
        table = std::make_shared<DigestTable>(layout.num_pages(), layout.format().num_layers());
    }
    table->use();
    return table;
}

}  // namespace

TransferEngine::TransferEngine(const PoolFormat& format, const std::string& device,
                               int64_t device_pages,
                               const std::vector<DeviceBuffer>& device_buffers, HostMemory host,
                               const HostLayout& layout, const CopyOptions& options)
    : format_(format),
      host_(std::move(host)),
      verify_(options.verify),
      counters_{std::make_shared<TransferCounters>(options.time_waits),
                std::make_shared<TransferCounters>(options.time_waits)},
      timeline_(std::make_shared<Timeline>()),
      backend_(
          create_backend(device, {fit(format, device_pages, device_buffers, host_, layout, options),
                                  host_,
                                  {counters_[0], counters_[1]},
                                  largest_layer(format),
                                  complete(options, layout),
                                  timeline_})),
      digests_(table_of(options, layout)),
      hazards_(layout.num_pages(), device_pages) {}

TransferEngine::~TransferEngine() {
    close();
}

void TransferEngine::require_usable() const {
    process_.require_same("transfer engine");
    if (closed_) bad_state("The transfer engine is closed.");
}

std::vector<int> TransferEngine::checked_layers(
    const std::optional<std::vector<int>>& layers) const {
    std::vector<int> order(static_cast<size_t>(format_.num_layers()));
    std::iota(order.begin(), order.end(), 0);
    if (!layers) return order;
    std::vector<bool> seen(order.size(), false);
    for (const int layer : *layers) {
        if (layer < 0 || layer >= format_.num_layers()) {
            bad_argument("Layer ", layer, " is outside 0 to ", format_.num_layers() - 1,
                         "; nothing was copied.");
        }
        if (seen[layer]) bad_argument("Layer ", layer, " is named twice; nothing was copied.");
        seen[layer] = true;
    }
    return *layers;
}

std::shared_ptr<CopyDigests> TransferEngine::digests_of(
    Direction direction, int64_t sequence, const std::vector<int>& layers,
    std::span<const int64_t> device_pages) const {
    const bool forgets =
        direction == Direction::kDeviceToHost && digests_ != nullptr && digests_->in_use();
    if (verify_ == Verify::kOff && !forgets) return nullptr;
    return std::make_shared<CopyDigests>(digests_, format_, direction, verify_, sequence, layers,
                                         device_pages);
}

int64_t TransferEngine::bytes_of(const std::vector<int>& layers) const {
    int64_t bytes = 0;
    for (const int layer : layers)
        bytes += format_.layer_bytes(layer);
    return bytes;
}

std::optional<int64_t> TransferEngine::take_failure(Direction direction, int64_t pages) {
    auto& failures = failures_[index(direction)];
    if (failures.empty() || pages == 0) return std::nullopt;
    const int64_t after = std::min(failures.front(), pages);
    failures.erase(failures.begin());
    return after;
}

Ticket TransferEngine::submit(Direction direction, std::span<const int64_t> host_pages,
                              std::span<const int64_t> device_pages,
                              const std::optional<std::vector<int>>& layers,
                              std::vector<FencePtr> after, CopyHints hints) {
    process_.require_same("transfer engine");
    const NvtxRange range(direction == Direction::kHostToDevice ? "submit h2d copy of pages "
                                                                : "submit d2h copy of pages ",
                          static_cast<int64_t>(host_pages.size()));
    auto order = checked_layers(layers);
    const int64_t page_bytes = bytes_of(order);
    const int d = index(direction);
    std::lock_guard lock(mutex_);
    require_usable();
    hazards_.check_pages(direction, host_pages, device_pages);
    // The last that may throw: what is numbered below has to reach the backend.
    const bool layerwise = hints.layerwise.value_or(direction == Direction::kHostToDevice);
    const bool beside_compute = hints.beside_compute.value_or(std::ranges::any_of(after, pending));

    const auto pages = static_cast<int64_t>(host_pages.size());
    const auto failure = take_failure(direction, pages);
    const auto planned = static_cast<size_t>(failure.value_or(pages));
    CopyPlan plan(host_pages.first(planned), device_pages.first(planned));
    const auto runs = static_cast<int64_t>(plan.runs().size());
    const bool empty = pages == 0;
    const int64_t sequence = empty ? 0 : ++sequence_[d];
    const int64_t wait_for =
        empty ? 0 : hazards_.note(direction, sequence, host_pages, device_pages);
    auto digests = empty ? nullptr : digests_of(direction, sequence, order, device_pages);
    auto job = std::make_shared<CopyJob>(
        CopyOrder{direction, std::move(plan), std::move(order), layerwise, beside_compute,
                  std::move(after), pages, page_bytes, failure.has_value(), sequence, wait_for,
                  std::move(digests)},
        format_.num_layers(), counters_[d], timeline_);
    counters_[d]->submitted(runs);
    if (empty) {
        job->finish(std::nullopt, 0);
    } else {
        backend_->submit(job);
    }
    return Ticket(std::move(job));
}

FencePtr TransferEngine::record(uintptr_t stream) {
    process_.require_same("transfer engine");
    {
        std::lock_guard lock(mutex_);
        require_usable();
    }
    return backend_->record(stream);
}

void TransferEngine::hold(Direction direction) {
    process_.require_same("transfer engine");
    std::lock_guard lock(mutex_);
    require_usable();
    backend_->hold(direction);
}

void TransferEngine::release(Direction direction) {
    process_.require_same("transfer engine");
    backend_->release(direction);
}

void TransferEngine::fail_next(Direction direction, int64_t after_pages) {
    process_.require_same("transfer engine");
    if (after_pages < 0) {
        bad_argument("after_pages is ", after_pages, "; it must not be negative.");
    }
    std::lock_guard lock(mutex_);
    require_usable();
    failures_[index(direction)].push_back(after_pages);
}

int64_t TransferEngine::in_flight(Direction direction) const {
    return totals(direction).in_flight();
}

TransferTotals TransferEngine::totals(Direction direction) const {
    process_.require_same("transfer engine");
    return counters_[index(direction)]->totals();
}

void TransferEngine::check() const {
    process_.require_same("transfer engine");
    {
        std::lock_guard lock(mutex_);  // no copy is between counting and queueing
        backend_->check();
    }
    for (const Direction direction : kDirections)
        counters_[index(direction)]->check(name(direction));
    host_.check();
}

void TransferEngine::close(double fence_seconds) {
    if (process_.forked()) {
        // The parent's threads do not exist here and its locks may be held: leave them as they are.
        static_cast<void>(backend_.release());
        return;
    }
    std::lock_guard closing(close_mutex_);
    {
        std::lock_guard lock(mutex_);
        closed_ = true;
    }
    backend_->close(fence_seconds);
}

}  // namespace hicache
