// The handle of a submitted copy. Copies of it share the job; safe from any thread, also after the
// engine is gone.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "transfer/copy_job.h"

namespace hicache {

class Ticket {
  public:
    explicit Ticket(std::shared_ptr<CopyJob> job);

    // Whether the copy has ended, well or not. Never blocks.
    [[nodiscard]] bool done() const;
    // Why the copy failed; nullopt while it is in flight or if it ended well.
    [[nodiscard]] std::optional<std::string> error() const;
    // Waits for the end; false at the limit. Does not throw for a failed copy.
    // Throws: std::runtime_error in a forked child.
    bool wait(Timeout timeout) const;
    // Waits until that layer's bytes are in place, or the copy has failed; false at the limit. A
    // layer that is not part of the copy is ready at once. Throws: std::invalid_argument for an
    // unknown layer; std::runtime_error in a forked child. goes_on: counted as one exposed wait
    // together with the call before, which ended at its limit.
    bool wait_layer(int layer, Timeout timeout, bool goes_on = false) const;
    // Makes that stream of the device wait for the layer, and returns at once. A stream that waits
    // for a layer of a copy that fails is released at its end. Throws: as wait_layer();
    // std::runtime_error for a stream that is being captured, or a device without streams.
    void wait_layer_on_stream(int layer, uintptr_t stream) const;
    // Whether that layer's bytes are in place. False for a layer of a failed copy.
    [[nodiscard]] bool layer_done(int layer) const;

    [[nodiscard]] int64_t pages() const;   // asked for
    [[nodiscard]] int64_t nbytes() const;  // asked for
    [[nodiscard]] int64_t pages_copied()
        const;  // the first so many pairs, all layers; 0 until done
    // Positions in the lists of pages of those whose bytes are not what was saved, ascending; empty
    // until done.
    [[nodiscard]] std::vector<int64_t> corrupt() const;
    [[nodiscard]] double seconds() const;  // copying, without waiting to start; 0 until done

  private:
    std::shared_ptr<CopyJob> job_;
};

}  // namespace hicache
