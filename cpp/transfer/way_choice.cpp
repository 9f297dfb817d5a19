#include "transfer/way_choice.h"

namespace hicache {

int64_t operation_bytes(const CopyGeometry& geometry, const CopyOrder& order) {
    const auto runs = static_cast<int64_t>(order.plan.runs().size());
    int64_t operations = 0;
    int64_t bytes = 0;
    for (const int layer : order.layers) {
        for (const Segment& segment : geometry.segments(layer)) {
            const int64_t rows = segment.device.packed() ? 1 : segment.device.rows;
            operations += rows == 1 ? runs : rows * order.plan.num_pages();
            bytes += segment.page_bytes() * order.plan.num_pages();
        }
    }
    return operations == 0 ? 0 : bytes / operations;
}

Way choose_way(const CopyGeometry& geometry, const CopyOrder& order) {
    const auto& record = geometry.record();
    const bool whole = order.layers.size() == static_cast<size_t>(geometry.num_layers());
    if (whole && record.size() == 1 && record[0].layers == 1) return Way::kDirect;
    return operation_bytes(geometry, order) >= kLongOperation ? Way::kDirect : Way::kKernel;
}

}  // namespace hicache
