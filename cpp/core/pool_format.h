// Which buffers a page has and how many bytes each takes: all that the core knows of a model.
//
// A page of one (buffer, layer) is opaque bytes. The record of a page is all its bytes, every layer
// and buffer. Immutable after construction, so safe to share between threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hicache {

struct BufferFormat {
    std::string name;
    int64_t page_bytes;       // one page of one layer
    std::vector<int> layers;  // owning layers, ascending

    bool operator==(const BufferFormat&) const = default;
};

class PoolFormat {
  public:
    // Throws: std::invalid_argument for sizes that are not positive, layers out of range or not
    // ascending, a name given twice, or a record beyond 2^62 bytes.
    PoolFormat(int64_t page_size, int num_layers, std::vector<BufferFormat> buffers);

    [[nodiscard]] int64_t page_size() const { return page_size_; }  // slots a page
    [[nodiscard]] int num_layers() const { return num_layers_; }
    [[nodiscard]] const std::vector<BufferFormat>& buffers() const { return buffers_; }
    [[nodiscard]] int num_buffers() const { return static_cast<int>(buffers_.size()); }

    // Bytes of a record.
    [[nodiscard]] int64_t page_bytes() const { return layer_starts_.back(); }
    // Bytes of one page's buffers of one layer. Throws: std::invalid_argument, unknown layer.
    [[nodiscard]] int64_t layer_bytes(int layer) const;
    // Bytes of all layers before this one in a record. Requires: 0 <= layer <= num_layers.
    [[nodiscard]] int64_t layer_start(int layer) const { return layer_starts_[layer]; }
    // Where a buffer starts among the buffers of a layer, or -1 if the layer does not own it.
    // Requires: indices in range.
    [[nodiscard]] int64_t start_in_layer(int buffer, int layer) const;

    bool operator==(const PoolFormat&) const = default;

  private:
    int64_t page_size_;
    int num_layers_;
    std::vector<BufferFormat> buffers_;
    std::vector<int64_t> layer_starts_;  // [num_layers + 1]
    std::vector<int64_t> starts_;        // [layer * num_buffers + buffer]
};

}  // namespace hicache
