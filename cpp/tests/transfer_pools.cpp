#include "tests/transfer_pools.h"

#include <cstring>
#include <numeric>
#include <random>

namespace hicache::testing_support {
namespace {

constexpr int64_t kGuard = 256;

std::vector<int> all_layers(int n) {
    std::vector<int> layers(static_cast<size_t>(n));
    std::iota(layers.begin(), layers.end(), 0);
    return layers;
}

PoolFormat format_of(const PoolShape& shape) {
    return {shape.rows,
            shape.layers,
            {{"latent", shape.rows * shape.latent_row,
              shape.latent_layers.value_or(all_layers(shape.layers))},
             {"index_k", shape.rows * shape.index_row, shape.index_layers}}};
}

void fill(std::byte* bytes, size_t size, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<std::byte>(random() >> 56);
}

}  // namespace

TransferPools::TransferPools(const PoolShape& shape)
    : device_name_(shape.device),
      device_pages_(shape.device_pages),
      format_(format_of(shape)),
      layout_(format_, shape.layout, shape.host_pages),
      host_(layout_.total_bytes(), shape.memory) {
    arrange(shape);
    fill_device(1);
    fill_host(2);
    CopyOptions options = shape.options;
    options.workers = shape.workers;
    engine_ = another_engine(options);
}

std::unique_ptr<TransferEngine> TransferPools::another_engine(const CopyOptions& options) const {
    return std::make_unique<TransferEngine>(format_, device_name_, device_pages_, buffers_, host_,
                                            layout_, options);
}

void TransferPools::arrange(const PoolShape& shape) {
    const int64_t pages = shape.device_pages;
    const int64_t begin = kGuard + shape.shift;
    int64_t at = begin;
    std::vector<int64_t> starts;
    buffer_of_.assign(2, std::vector<int>(static_cast<size_t>(shape.layers), -1));
    for (int b = 0; b < 2; ++b) {
        const int64_t row = b == 0 ? shape.latent_row : shape.index_row;
        const int64_t bytes = row * shape.rows;
        for (const int layer : format_.buffers()[b].layers) {
            buffer_of_[b][layer] = static_cast<int>(buffers_.size());
            switch (shape.arrangement) {
                case Arrangement::kContiguous:
                    buffers_.push_back({0, bytes, shape.rows, row, row});
                    starts.push_back(at);
                    at += bytes * pages;
                    break;
                case Arrangement::kPaddedRows: {
                    const int64_t stride = (row + shape.row_gap) * shape.rows + shape.page_gap;
                    buffers_.push_back({0, stride, shape.rows, row, row + shape.row_gap});
                    starts.push_back(at);
                    at += stride * pages;
                    break;
                }
                case Arrangement::kPackedPages:
                    buffers_.push_back({0, format_.page_bytes(), shape.rows, row, row});
                    starts.push_back(begin + format_.layer_start(layer) +
                                     format_.start_in_layer(b, layer));
                    at = begin + format_.page_bytes() * pages;
                    break;
                case Arrangement::kRowsFirst:
                    buffers_.push_back({0, row, shape.rows, row, row * pages});
                    starts.push_back(at);
                    at += bytes * pages;
                    break;
            }
        }
    }
    device_.resize(static_cast<size_t>(at + kGuard));
    for (size_t i = 0; i < buffers_.size(); ++i) {
        buffers_[i].address = reinterpret_cast<uint64_t>(device_.data() + starts[i]);
    }
}

Ticket TransferPools::submit(Direction direction, const Pages& host, const Pages& device,
                             const std::optional<std::vector<int>>& layers,
                             std::vector<FencePtr> after) {
    return engine_->submit(direction, host, device, layers, std::move(after));
}

void TransferPools::fill_device(uint64_t seed) {
    fill(device_.data(), device_.size(), seed);
}
void TransferPools::fill_host(uint64_t seed) {
    fill(host_.data(), static_cast<size_t>(host_.nbytes()), seed);
}

std::vector<TransferPools::Place> TransferPools::places(int64_t host_page, int64_t device_page,
                                                        int layer) const {
    std::vector<Place> rows;
    for (int b = 0; b < 2; ++b) {
        if (buffer_of_[b][layer] < 0) continue;
        const DeviceBuffer& buffer = buffers_[buffer_of_[b][layer]];
        const int64_t host = layout_.offset(b, layer, host_page);
        const int64_t base = reinterpret_cast<const std::byte*>(buffer.address) - device_.data();
        for (int64_t row = 0; row < buffer.rows; ++row) {
            rows.push_back({host + row * buffer.row_bytes,
                            base + device_page * buffer.page_stride + row * buffer.row_stride,
                            buffer.row_bytes});
        }
    }
    return rows;
}

std::vector<std::byte> TransferPools::device_record(int64_t page) const {
    std::vector<std::byte> record;
    for (int layer = 0; layer < format_.num_layers(); ++layer) {
        const auto bytes = device_layer(device_, page, layer);
        record.insert(record.end(), bytes.begin(), bytes.end());
    }
    return record;
}

std::vector<std::byte> TransferPools::device_layer(const std::vector<std::byte>& device,
                                                   int64_t page, int layer) const {
    std::vector<std::byte> bytes;
    for (const Place& row : places(0, page, layer)) {
        const auto begin = device.begin() + row.device;
        bytes.insert(bytes.end(), begin, begin + row.bytes);
    }
    return bytes;
}

std::vector<std::byte> TransferPools::host_layer(const std::vector<std::byte>& host, int64_t page,
                                                 int layer) const {
    std::vector<std::byte> bytes;
    for (const Place& row : places(page, 0, layer)) {
        const auto begin = host.begin() + row.host;
        bytes.insert(bytes.end(), begin, begin + row.bytes);
    }
    return bytes;
}

std::vector<std::byte> TransferPools::host_record(int64_t page) const {
    std::vector<std::byte> record;
    for (int layer = 0; layer < format_.num_layers(); ++layer) {
        for (const Place& row : places(page, 0, layer)) {
            record.insert(record.end(), host_.data() + row.host,
                          host_.data() + row.host + row.bytes);
        }
    }
    return record;
}

std::vector<std::byte> TransferPools::host_bytes() const {
    return {host_.data(), host_.data() + host_.nbytes()};
}

void TransferPools::apply(Direction direction, const Pages& host, const Pages& device,
                          const std::vector<int>& layers, std::vector<std::byte>& host_bytes,
                          std::vector<std::byte>& device_bytes) const {
    for (size_t i = 0; i < host.size(); ++i) {
        for (const int layer : layers) {
            for (const Place& row : places(host[i], device[i], layer)) {
                std::byte* h = host_bytes.data() + row.host;
                std::byte* d = device_bytes.data() + row.device;
                const auto n = static_cast<size_t>(row.bytes);
                direction == kLoad ? std::memcpy(d, h, n) : std::memcpy(h, d, n);
            }
        }
    }
}

}  // namespace hicache::testing_support
