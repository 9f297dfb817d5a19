#include "transfer/layer_groups.h"

#include <algorithm>

namespace hicache {
namespace {

constexpr int64_t kSmallestGroup = int64_t{4} << 20;  // bytes of all pages: some 80 us of a link

// Layers of the first group of several.
int first_layers(const CopyOrder& order) {
    const int64_t bytes = order.plan.num_pages() * order.page_bytes;
    const auto layers = static_cast<int64_t>(order.layers.size());
    return static_cast<int>(
        bytes > 0 ? std::clamp<int64_t>(kSmallestGroup * layers / bytes, 1, layers) : 1);
}

}  // namespace

std::vector<LayerGroup> layer_groups(const CopyGeometry& geometry, const CopyOrder& order,
                                     int group_layers, int64_t most_bytes) {
    std::vector<LayerGroup> groups;
    const std::vector<int>& layers = order.layers;
    int most = group_layers;
    if (group_layers < static_cast<int>(layers.size())) most = std::min(first_layers(order), most);
    for (size_t position = 0; position < layers.size();) {
        LayerGroup group{static_cast<int>(position), layers[position], layers[position] + 1};
        for (size_t next = position + 1;
             group.layers() < most && next < layers.size() && layers[next] == group.last_layer &&
             geometry.page_bytes(group.first_layer, group.last_layer + 1) <= most_bytes;
             ++next)
            ++group.last_layer;
        groups.push_back(group);
        most = std::min(2 * most, group_layers);
        position += static_cast<size_t>(group.layers());
    }
    return groups;
}

}  // namespace hicache
