// What moves the bytes. One implementation a folder under backends/.
//
// The engine has validated and planned; a backend starts copies in the order they come in, one
// direction independent of the other except where a job says it waits for a copy of the other.
// Every method is thread-safe.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "core/host_memory.h"
#include "core/timeline.h"
#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"
#include "transfer/copy_options.h"
#include "transfer/direction.h"

namespace hicache {

class Backend {
  public:
    virtual ~Backend() = default;  // as close(0)

    // A fence behind everything queued on that stream of the device so far; nullptr if all of it is
    // complete. Throws: std::invalid_argument for a handle the device does not know;
    // std::runtime_error for a stream that is being captured into a graph.
    [[nodiscard]] virtual FencePtr record(uintptr_t stream) = 0;

    // Queues a copy. The backend calls the job's start(), layers_landed() and finish().
    virtual void submit(std::shared_ptr<CopyJob> job) = 0;

    // While a direction is held, its copies that have not started stay in flight. Counted.
    virtual void hold(Direction direction) = 0;
    // Throws: std::runtime_error if it is not held.
    virtual void release(Direction direction) = 0;

    // Opens the gates, finishes every copy and ends the threads. Copies whose fences do not
    // complete within fence_seconds fail; those that a device waits for already are waited for.
    // Idempotent; submit() must not be called any more.
    virtual void close(double fence_seconds) = 0;

    // Throws: std::runtime_error with both sides of a broken equation.
    virtual void check() const = 0;

    // What works less well than it could, for the user to know; empty if nothing does.
    [[nodiscard]] virtual std::string warning() const { return {}; }
};

struct BackendSetup {
    std::shared_ptr<const CopyGeometry> geometry;
    HostMemory host;
    std::array<std::shared_ptr<TransferCounters>, 2> counters;  // by direction
    int64_t layer_bytes;  // of a page, the largest of its layers
    CopyOptions options;
    std::shared_ptr<Timeline> timeline{};  // what happened when; nullptr: nobody records
};

// device: "cpu", "cuda", "cuda:1", ...
// Throws: std::runtime_error for a device this build or this machine has no backend for.
[[nodiscard]] std::unique_ptr<Backend> create_backend(const std::string& device,
                                                      BackendSetup setup);

}  // namespace hicache
