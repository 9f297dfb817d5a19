#include "core/pool_format.h"

#include <set>
#include <utility>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;

void check_buffer(const BufferFormat& buffer, int num_layers) {
    if (buffer.page_bytes <= 0) {
        bad_argument("Buffer '", buffer.name, "': page_bytes is ", buffer.page_bytes,
                     "; it must be positive.");
    }
    int previous = -1;
    for (const int layer : buffer.layers) {
        if (layer < 0 || layer >= num_layers) {
            bad_argument("Buffer '", buffer.name, "': layer ", layer, " is outside 0 to ",
                         num_layers - 1, ".");
        }
        if (layer <= previous) {
            bad_argument("Buffer '", buffer.name, "': layer ", layer, " follows layer ", previous,
                         "; layers must ascend.");
        }
        previous = layer;
    }
}

}  // namespace

PoolFormat::PoolFormat(int64_t page_size, int num_layers, std::vector<BufferFormat> buffers)
    : page_size_(page_size), num_layers_(num_layers), buffers_(std::move(buffers)) {
    if (page_size <= 0) bad_argument("page_size is ", page_size, "; it must be positive.");
    if (num_layers <= 0) bad_argument("num_layers is ", num_layers, "; it must be positive.");
    if (buffers_.empty()) bad_argument("A format needs at least one buffer.");
    std::set<std::string> names;
    for (const auto& buffer : buffers_) {
        check_buffer(buffer, num_layers);
        if (!names.insert(buffer.name).second) {
            bad_argument("Buffer name '", buffer.name, "' is given twice.");
        }
    }

    std::vector<std::vector<int64_t>> bytes(num_layers, std::vector<int64_t>(num_buffers(), 0));
    for (int b = 0; b < num_buffers(); ++b) {
        for (const int layer : buffers_[b].layers)
            bytes[layer][b] = buffers_[b].page_bytes;
    }
    layer_starts_.push_back(0);
    for (const auto& layer : bytes) {
        int64_t start = 0;
        for (const int64_t size : layer) {
            starts_.push_back(size > 0 ? start : -1);
            if (size > kMaxBytes - start) bad_argument("A page's record exceeds 2^62 bytes.");
            start += size;
        }
        if (start > kMaxBytes - layer_starts_.back()) {
            bad_argument("A page's record exceeds 2^62 bytes.");
        }
        layer_starts_.push_back(layer_starts_.back() + start);
    }
}

int64_t PoolFormat::layer_bytes(int layer) const {
    if (layer < 0 || layer >= num_layers_) {
        bad_argument("Layer ", layer, " is outside 0 to ", num_layers_ - 1, ".");
    }
    return layer_starts_[layer + 1] - layer_starts_[layer];
}

int64_t PoolFormat::start_in_layer(int buffer, int layer) const {
    return starts_[static_cast<size_t>(layer) * buffers_.size() + static_cast<size_t>(buffer)];
}

}  // namespace hicache
