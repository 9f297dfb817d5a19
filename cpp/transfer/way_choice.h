// Which way a GPU copies: the cheapest by what the link was measured to do.
//
// Pure: same copy, same curve, same choice.
#pragma once

#include <cstdint>
#include <optional>

#include "transfer/copy_geometry.h"
#include "transfer/copy_job.h"
#include "transfer/copy_options.h"
#include "transfer/link_curve.h"

namespace hicache {

struct WayChoice {
    Way way;
    int group_layers;  // at most so many layers land together, > 0

    bool operator==(const WayChoice&) const = default;
};

// What the choice is between.
struct WayLimits {
    std::optional<Way> asked{};  // no other, if it is possible
    int kernel_blocks = 4;       // of a kernel, 0 = the GPU's processors do not reach the host pool
    int64_t bay_bytes = 0;       // of the staging ring, 0 = there is none
};

struct CopyEstimate {
    double total = 0;       // seconds until all has landed
    double step = 0;        // longest time between two landings of layers, or until the first
    double queueing = 0;    // of the thread that queues it
    double processors = 0;  // while kernels of the copy have processors of the GPU
};

// What the copy takes that way. Requires: the way is possible.
[[nodiscard]] CopyEstimate estimate(const CopyGeometry& geometry, const CopyOrder& order,
                                    const LinkCurve& curve, const WayLimits& limits,
                                    WayChoice choice);

struct PlannedWay {
    WayChoice choice;
    CopyEstimate estimate;
};

// Weighs the time to the end; the longest wait for a layer, if they are awaited one by one; what
// the copy takes of the host and of the GPU; and, while the model computes, what it loses.
// Requires: the copy has pages.
[[nodiscard]] PlannedWay choose_way(const CopyGeometry& geometry, const CopyOrder& order,
                                    const LinkCurve& curve, const WayLimits& limits);

}  // namespace hicache
