// Moves pages between a device pool and a host pool, asynchronously.
//
// submit() validates, plans and queues; it never waits for bytes. Copies of one direction run in
// submission order. A copy that shares a host or device page with one of the other direction that
// is in flight runs after it, so a page is never read while it is written. The owner of the device
// buffers keeps them alive until close().
//
// With options.verify digests of the pages are taken at each save and compared at loads, see
// copy_digests.h: a load that brings other bytes fails. Layers are announced before they are
// compared. A save of an engine that does not verify makes the table forget the pages.
//
// Thread-safe. Fork: in a child every method throws std::runtime_error, except close() and the
// destructor, which leave the threads and locks of the parent alone.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/host_layout.h"
#include "core/host_memory.h"
#include "core/process.h"
#include "core/timeline.h"
#include "transfer/backend.h"
#include "transfer/device_buffer.h"
#include "transfer/direction.h"
#include "transfer/page_hazards.h"
#include "transfer/ticket.h"
#include "transfer/transfer_counters.h"

namespace hicache {

class TransferEngine {
  public:
    // device_buffers: for each buffer of the format, for each of its layers.
    // Throws: std::invalid_argument if the parts do not fit together, before a thread is started;
    // std::runtime_error for a device without a backend in this build.
    TransferEngine(const PoolFormat& format, const std::string& device, int64_t device_pages,
                   const std::vector<DeviceBuffer>& device_buffers, HostMemory host,
                   const HostLayout& layout, const CopyOptions& options);
    ~TransferEngine();  // as close()

    // Copies host_pages[i] <-> device_pages[i] for every i. layers: which, in landing order
    // (default all, ascending). after: work that has to be complete before a byte moves. hints: for
    // the choice of the way. Throws:
    // std::invalid_argument before any byte moves for lists of different length, pages out of
    // range, a destination named twice, layers unknown or named twice; std::runtime_error after
    // close(). A source may be named twice. No pages: the copy is done at once.
    [[nodiscard]] Ticket submit(Direction direction, std::span<const int64_t> host_pages,
                                std::span<const int64_t> device_pages,
                                const std::optional<std::vector<int>>& layers,
                                std::vector<FencePtr> after, CopyHints hints = {});

    // A fence behind what is queued on that stream of the device now; nullptr if all is complete.
    // Throws: std::invalid_argument for a handle the device does not know; std::runtime_error for a
    // stream that is being captured into a graph, or after close().
    [[nodiscard]] FencePtr record(uintptr_t stream);

    // Counted gate: while held, copies of the direction that have not started stay in flight.
    void hold(Direction direction);
    void release(Direction direction);

    // The next copy with pages submitted in that direction copies its first `after_pages` pairs,
    // every layer of them, and then fails. Calls add up: one failure each. Throws:
    // std::invalid_argument for after_pages < 0.
    void fail_next(Direction direction, int64_t after_pages);

    [[nodiscard]] int64_t in_flight(Direction direction) const;
    [[nodiscard]] TransferTotals totals(Direction direction) const;

    // Records its copies and the waits for them, once started; outlives the engine.
    [[nodiscard]] const std::shared_ptr<Timeline>& timeline() const { return timeline_; }

    // What works less well than it could, for the user to know; empty if nothing does.
    [[nodiscard]] std::string warning() const { return backend_->warning(); }

    // Throws: std::runtime_error with both sides of a broken equation, or a guard zone overwritten.
    void check() const;

    // Opens the gates, finishes the copies, ends the threads. Copies whose fences do not complete
    // within fence_seconds fail. Idempotent.
    void close(double fence_seconds = 5.0);

  private:
    [[nodiscard]] std::vector<int> checked_layers(
        const std::optional<std::vector<int>>& layers) const;
    // The digests of a copy that is about to be submitted; nullptr if it needs none.
    [[nodiscard]] std::shared_ptr<CopyDigests> digests_of(
        Direction direction, int64_t sequence, const std::vector<int>& layers,
        std::span<const int64_t> device_pages) const;
    [[nodiscard]] int64_t bytes_of(const std::vector<int>& layers) const;
    [[nodiscard]] std::optional<int64_t> take_failure(Direction direction, int64_t pages);
    void require_usable() const;

    const PoolFormat format_;
    const ProcessMark process_;
    HostMemory host_;
    const Verify verify_;
    std::array<std::shared_ptr<TransferCounters>, 2> counters_;
    const std::shared_ptr<Timeline> timeline_;
    std::unique_ptr<Backend> backend_;
    const std::shared_ptr<DigestTable> digests_;  // nullptr: nobody keeps any

    mutable std::mutex mutex_;  // guards what follows; held while a copy is numbered and queued
    PageHazards hazards_;
    std::array<int64_t, 2> sequence_{0, 0};
    std::array<std::vector<int64_t>, 2> failures_;  // after_pages of failures to come, oldest first
    bool closed_ = false;

    std::mutex close_mutex_;  // one close() at a time
};

}  // namespace hicache
