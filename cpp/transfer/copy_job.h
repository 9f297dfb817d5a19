// One submitted copy: what is to be copied, fixed at submission, and how far it has come.
//
// A backend reads the first part and reports through layers_landed() and finish(); tickets read the
// second part. Thread-safe.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/fence.h"
#include "core/process.h"
#include "transfer/copy_digests.h"
#include "transfer/copy_plan.h"
#include "transfer/copy_trace.h"
#include "transfer/direction.h"
#include "transfer/due_time.h"
#include "transfer/stream_gate.h"
#include "transfer/transfer_counters.h"

namespace hicache {

// What a copy is. Pages that a planned failure leaves out are not in the plan.
struct CopyOrder {
    Direction direction;
    CopyPlan plan;
    std::vector<int> layers;      // in the order they are to land
    bool layerwise;               // they are awaited one by one: the first should land early
    bool beside_compute;          // the model computes meanwhile, and should not feel it
    std::vector<FencePtr> after;  // work that has to be complete before a byte moves
    int64_t pages;                // pages asked for
    int64_t page_bytes;           // bytes of a page, over `layers`
    bool fails;                   // ends with an error once the plan is copied (fail_next)
    int64_t sequence;             // number of the copy in its direction, from 1
    int64_t wait_for;             // copy of the other direction that has to end first, 0 = none
    std::shared_ptr<CopyDigests> digests{};  // nullptr: none are taken, and none are known
};

class CopyJob {
  public:
    // timeline: nullptr: nobody records what becomes of it.
    CopyJob(CopyOrder order, int num_layers, std::shared_ptr<TransferCounters> counters,
            std::shared_ptr<Timeline> timeline = nullptr);

    [[nodiscard]] const CopyOrder& order() const { return order_; }

    // For the backend -----------------------------------------------------------------------------
    // How device streams wait for layers. Requires: called before a ticket of the job exists.
    void set_gate(std::shared_ptr<StreamGate> gate) { gate_ = std::move(gate); }
    void start();
    // How the bytes go, for the timeline.
    void goes(Way way);
    // All of it should have landed at `end`, having taken that long. At most once.
    void expect_end(SteadyTime end, DueTime::Duration takes);
    [[nodiscard]] const DueTime& due() const { return due_; }
    // For the timeline: when the device began to copy. At most once, before a layer lands.
    void began(SteadyTime at);
    // The bytes of order().layers at positions [first, last) are in place. In any order, once each.
    // at: when they were, if that is not now; for the timeline.
    void layers_landed(int first, int last, std::optional<SteadyTime> at = std::nullopt);
    // For the timeline: a stream stood still for the layer at that position.
    void stream_waited(int position, uintptr_t stream, SteadyTime begin, SteadyTime end);
    // The copy has ended. error: why it failed; pages that are not what was saved are an error,
    // too. The counters change before anyone can see the end.
    void finish(std::optional<std::string> error, int64_t pages_copied);

    // For tickets ---------------------------------------------------------------------------------
    [[nodiscard]] bool done() const { return done_.load(std::memory_order_acquire); }
    [[nodiscard]] std::optional<std::string> error() const;
    bool wait(Timeout timeout);
    // Throws: std::invalid_argument for an unknown layer.
    [[nodiscard]] bool layer_done(int layer) const;
    // What the thread really waited is counted as an exposed wait: nothing for a layer that has
    // landed, or without time to wait. goes_on: one wait together with the call before, which ended
    // at its limit.
    bool wait_layer(int layer, Timeout timeout, bool goes_on = false);
    // Makes that stream of the device wait for the layer; the caller does not wait.
    // Throws: as wait_layer(); std::runtime_error if the device has no streams, or the stream is
    // being captured into a graph.
    void wait_layer_on_stream(int layer, uintptr_t stream);
    [[nodiscard]] int64_t pages_copied() const;
    [[nodiscard]] std::vector<int64_t> corrupt() const;
    [[nodiscard]] double seconds() const;

  private:
    [[nodiscard]] int position_of(int layer) const;
    [[nodiscard]] bool position_done(int position) const;
    [[nodiscard]] double seconds_until(int64_t ended) const;  // from the start on; 0 without one
    // As wait_layer(), of a layer that is part of the copy and has not landed.
    bool wait_position(int position, Timeout timeout, bool goes_on);
    // Without sleep, while the copy is due.
    void look_for_end(SteadyTime limit) const;

    const CopyOrder order_;
    const std::shared_ptr<TransferCounters> counters_;
    const ProcessMark process_;
    std::shared_ptr<StreamGate> gate_;
    std::vector<int> positions_;  // by layer: place in order().layers, -1 = not part of the copy

    mutable std::mutex mutex_;
    CopyTrace trace_;
    std::condition_variable landed_changed_;
    std::condition_variable done_changed_;  // of its own: layers do not wake who waits for the end
    std::vector<bool> landed_;              // by position
    std::atomic<int> in_order_{0};          // positions [0, in_order) have landed
    std::atomic<bool> done_{false};
    DueTime due_;
    std::optional<std::string> error_;  // set before done
    int64_t pages_copied_ = 0;
    int64_t started_ = 0;  // nanoseconds of the steady clock; 0: not yet
    double seconds_ = 0;
};

}  // namespace hicache
