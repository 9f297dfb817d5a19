#include "transfer/way_choice.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "transfer/layer_groups.h"
#include "transfer/stage_plan.h"

namespace hicache {
namespace {

// What a copy beside a model that fills the GPU takes from it, by direction, and what is left of
// the copy's own speed: measured beside bf16 matrix products that leave no place for another kernel
// as long as they run, see docs/benchmarks.md.
struct Beside {
    std::array<double, 2> models_loss;  // part of the model's speed, by direction
    double speed;                       // part of the copy's
};
constexpr std::array<Beside, kWays> kBeside{{
    {{0.015, 0.015}, 0.9},  // direct
    {{0.10, 0.33}, 0.4},    // kernel
    {{0.03, 0.02}, 0.2},    // staged
}};
// A slower model is felt by all running requests, a slower copy by the one that waits for it.
constexpr double kModelWeight = 8;
// Layers that land together are computed after the last of them: a model that computes meanwhile
// has much to do, one that has not begun may compute slower than layers land.
constexpr double kBesideStepWeight = 1.5;
constexpr double kIdleStepWeight = 0.5;
// A core that queues copies does nothing else meanwhile.
constexpr double kQueueingWeight = 0.02;
constexpr double kQueuePiece = 0.6e-6;     // seconds to queue a piece of a batch
constexpr double kQueueFarPiece = 0.9e-6;  // the same where the one before lies megabytes away
constexpr double kQueueHeadroom = 0.9;  // a link that waits for the queueing thread rests at times
constexpr double kQueueOperation = 4e-6;  // a copy, a launch, a batch with its events
constexpr double kLaunchGap = 4e-6;       // the link rests between two kernels
constexpr double kBatchGap = 3e-6;        // the link rests between two batches
constexpr double kRectangleGap = 1.7e-6;  // and between rectangles that are not like the one before
constexpr int64_t kLongestBatch = 256;    // pieces
// The last tile of a load still goes from the ring to its pages when the link has nothing more to
// do; a save's first one has to be in the ring before the link has anything to do.
constexpr double kDeviceRate = 130e9;                             // bytes a second of that kernel
constexpr std::array<double, 2> kThroughTheRing{100e-6, 200e-6};  // from an idle link, by direction
// Bytes a second of one block of a kernel that reads or writes host memory: fewer than the curve's
// blocks are slower than the link.
constexpr double kBlockRate = 27e9;
// Four processors of 132 belong to the copy while its kernels run; products beside such a kernel
// took 6 to 13 % longer.
constexpr double kProcessorWeight = 0.06;

int all_layers(const CopyOrder& order) {
    return static_cast<int>(order.layers.size());
}

int64_t host_runs(const CopyPlan& plan) {
    int64_t runs = 0;
    int64_t next = -1;
    for (const PageRun& run : plan.runs()) {
        runs += run.host_page != next;
        next = run.host_page + run.count;
    }
    return runs;
}

struct Operations {
    int64_t count;
    bool pieces;  // contiguous, in batches; else rectangles
};

// What pages of `width` contiguous bytes at those distances are copied as, see append_blocks().
Operations page_operations(const CopyPlan& plan, int64_t width, int64_t host_stride,
                           int64_t device_stride) {
    const auto runs = static_cast<int64_t>(plan.runs().size());
    if (host_stride == width && device_stride == width) return {runs, true};
    if (runs == plan.num_pages()) return {runs, true};
    if (pitchable(host_stride, width) && pitchable(device_stride, width)) return {runs, false};
    return {plan.num_pages(), true};
}

Operations operations(const Segment& segment, const CopyPlan& plan) {
    const DeviceBuffer& buffer = segment.device;
    if (buffer.packed()) {
        return page_operations(plan, segment.page_bytes(), segment.host_stride, buffer.page_stride);
    }
    if (!pitchable(buffer.row_stride, buffer.row_bytes)) {
        return {plan.num_pages() * buffer.rows, true};
    }
    const bool dense = segment.host_stride == segment.page_bytes() &&
                       buffer.page_stride == buffer.rows * buffer.row_stride;
    return {dense ? static_cast<int64_t>(plan.runs().size()) : plan.num_pages(), false};
}

Operations operations(const RecordPart& part, const CopyPlan& plan) {
    if (part.layers == 1) {
        return page_operations(plan, part.width, part.host_stride, part.device_stride);
    }
    const bool rectangles =
        pitchable(part.host_pitch, part.width) && pitchable(part.device_pitch, part.width);
    return {plan.num_pages() * (rectangles ? 1 : part.layers), !rectangles};
}

// What is queued at once: the pieces go in batches.
class QueuedAtOnce {
  public:
    QueuedAtOnce(const CopyGeometry& geometry, const LinkCosts& costs, CopyEstimate& estimate)
        : costs_(costs),
          estimate_(estimate),
          queue_piece_(geometry.host_records() ? kQueueFarPiece : kQueuePiece) {}
    ~QueuedAtOnce() {
        const int64_t batches = (pieces_ + kLongestBatch - 1) / kLongestBatch;
        estimate_.total += kBatchGap * static_cast<double>(batches);
        estimate_.queueing += kQueueOperation;  // the event behind them
    }
    QueuedAtOnce(const QueuedAtOnce&) = delete;
    QueuedAtOnce& operator=(const QueuedAtOnce&) = delete;

    void add(Operations operations, int64_t bytes) {
        if (bytes == 0) return;
        const CostCurve& curve = operations.pieces ? costs_.piece : costs_.rectangle;
        const auto count = static_cast<double>(operations.count);
        estimate_.total += count * curve.seconds(bytes / operations.count);
        estimate_.queueing += count * (operations.pieces ? queue_piece_ : kQueueOperation);
        if (operations.pieces) {
            pieces_ += operations.count;
        } else {
            estimate_.total += count * kRectangleGap;
        }
    }

  private:
    const LinkCosts& costs_;
    CopyEstimate& estimate_;
    const double queue_piece_;
    int64_t pieces_ = 0;
};

// A group of layers has landed. landed: when the one before had.
void end_step(CopyEstimate& estimate, double& landed) {
    estimate.step = std::max(estimate.step, estimate.total - landed);
    landed = estimate.total;
}

CopyEstimate estimate_direct(const CopyGeometry& geometry, const CopyOrder& order,
                             const LinkCosts& costs, WayChoice choice) {
    CopyEstimate result;
    const int64_t pages = order.plan.num_pages();
    if (geometry.whole_records(order.layers.size(), choice.group_layers)) {
        {
            QueuedAtOnce queued(geometry, costs, result);
            for (const RecordPart& part : geometry.record())
                queued.add(operations(part, order.plan), part.width * part.layers * pages);
        }
        result.step = result.total;
        return result;
    }
    double landed = 0;
    for (const LayerGroup& group : layer_groups(geometry, order, choice.group_layers)) {
        {
            QueuedAtOnce queued(geometry, costs, result);
            for (int layer = group.first_layer; layer < group.last_layer; ++layer) {
                for (const Segment& segment : geometry.segments(layer))
                    queued.add(operations(segment, order.plan), segment.page_bytes() * pages);
            }
        }
        end_step(result, landed);
    }
    return result;
}

CopyEstimate estimate_kernel(const CopyGeometry& geometry, const CopyOrder& order,
                             const LinkCosts& costs, int blocks, WayChoice choice) {
    CopyEstimate result;
    double landed = 0;
    for (const LayerGroup& group : layer_groups(geometry, order, choice.group_layers)) {
        const int64_t bytes =
            geometry.page_bytes(group.first_layer, group.last_layer) * order.plan.num_pages();
        if (bytes > 0) {
            const double by_blocks = static_cast<double>(bytes) / (kBlockRate * blocks);
            result.total += kLaunchGap + std::max(costs.kernel.seconds(bytes), by_blocks);
        }
        result.queueing += kQueueOperation;
        end_step(result, landed);
    }
    result.processors = result.total;
    return result;
}

CopyEstimate estimate_staged(const CopyGeometry& geometry, const CopyOrder& order,
                             const LinkCosts& costs, int64_t bay_bytes, WayChoice choice) {
    CopyEstimate result;
    const int64_t pages = order.plan.num_pages();
    const int64_t runs = host_runs(order.plan);
    double edge_bytes = 0;  // of that tile
    double first_queued = 0;
    double landed = 0;
    for (const StageTile& tile : stage_tiles(geometry, order, bay_bytes, choice.group_layers)) {
        const int64_t of_page = geometry.page_bytes(tile.first_layer, tile.last_layer);
        const int64_t bytes = of_page * tile.pages;
        if (edge_bytes == 0 || order.direction == Direction::kHostToDevice)
            edge_bytes = static_cast<double>(bytes);
        result.queueing += 2 * kQueueOperation;
        if (bytes > 0) {
            // Whole entries of neighbours are one piece; a part of a record is one a page.
            const bool neighbours = geometry.entry(tile.first_layer).stride == of_page;
            const bool by_page = geometry.host_records();
            const int64_t a_layer =
                neighbours || !by_page ? (runs * tile.pages + pages - 1) / pages : tile.pages;
            QueuedAtOnce queued(geometry, costs, result);
            queued.add({by_page ? a_layer : a_layer * tile.layers(), true}, bytes);
        }
        if (first_queued == 0) first_queued = result.queueing;
        if (tile.last) end_step(result, landed);
    }
    result.processors = static_cast<double>(pages * order.page_bytes) / kDeviceRate;
    const double spread = edge_bytes / kDeviceRate + first_queued +
                          kThroughTheRing[static_cast<size_t>(index(order.direction))];
    result.total += spread;
    result.step += spread;
    return result;
}

double weigh(const CopyOrder& order, WayChoice choice, const CopyEstimate& estimate) {
    double cost = estimate.total;
    if (order.layerwise)
        cost += estimate.step * (order.beside_compute ? kBesideStepWeight : kIdleStepWeight);
    if (order.beside_compute) {
        const Beside& beside = kBeside[static_cast<size_t>(choice.way)];
        cost /= beside.speed;
        cost *= 1 + kModelWeight * beside.models_loss[static_cast<size_t>(index(order.direction))];
    }
    return cost + kQueueingWeight * estimate.queueing + kProcessorWeight * estimate.processors;
}

bool possible(Way way, const WayLimits& limits) {
    switch (way) {
        case Way::kKernel:
            return limits.kernel_blocks > 0;
        case Way::kStaged:
            return limits.bay_bytes > 0;
        case Way::kDirect:
            return true;
    }
    return false;
}

std::vector<WayChoice> choices(const CopyOrder& order, const WayLimits& limits) {
    std::vector<WayChoice> found;
    const int all = all_layers(order);
    const bool bound = limits.asked && possible(*limits.asked, limits);
    for (const Way way : kAllWays) {
        if (!possible(way, limits) || (bound && way != *limits.asked)) continue;
        for (int group = 1; group < all; group *= group < 4 ? 2 : 4)
            found.push_back({way, group});
        found.push_back({way, all});
    }
    return found;
}

}  // namespace

CopyEstimate estimate(const CopyGeometry& geometry, const CopyOrder& order, const LinkCurve& curve,
                      const WayLimits& limits, WayChoice choice) {
    const LinkCosts& costs = curve.of(order.direction);
    CopyEstimate result;
    switch (choice.way) {
        case Way::kDirect:
            result = estimate_direct(geometry, order, costs, choice);
            break;
        case Way::kKernel:
            result = estimate_kernel(geometry, order, costs, limits.kernel_blocks, choice);
            break;
        case Way::kStaged:
            result = estimate_staged(geometry, order, costs, limits.bay_bytes, choice);
            break;
    }
    result.total = std::max(result.total, result.queueing / kQueueHeadroom);
    return result;
}

PlannedWay choose_way(const CopyGeometry& geometry, const CopyOrder& order, const LinkCurve& curve,
                      const WayLimits& limits) {
    PlannedWay best{};
    double least = std::numeric_limits<double>::infinity();
    for (const WayChoice choice : choices(order, limits)) {
        const CopyEstimate estimated = estimate(geometry, order, curve, limits, choice);
        const double cost = weigh(order, choice, estimated);
        if (cost < least) {
            least = cost;
            best = {choice, estimated};
        }
    }
    return best;
}

}  // namespace hicache
