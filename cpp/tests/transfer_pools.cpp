#include "tests/transfer_pools.h"

#include <cstring>
#include <numeric>
#include <random>

namespace hicache::testing_support {
namespace {

constexpr int64_t kGuard = 256;
constexpr int64_t kIndexRow = 132;

std::vector<int> all_layers(int n) {
    std::vector<int> layers(static_cast<size_t>(n));
    std::iota(layers.begin(), layers.end(), 0);
    return layers;
}

PoolFormat format_of(const PoolShape& shape) {
    return {shape.rows,
            shape.layers,
            {{"latent", shape.rows * shape.latent_row, all_layers(shape.layers)},
             {"index_k", shape.rows * kIndexRow, shape.index_layers}}};
}

void fill(std::byte* bytes, size_t size, uint64_t seed) {
    std::mt19937_64 random(seed);
    for (size_t i = 0; i < size; ++i)
        bytes[i] = static_cast<std::byte>(random() >> 56);
}

}  // namespace

TransferPools::TransferPools(const PoolShape& shape)
    : format_(format_of(shape)),
      layout_(format_, shape.layout, shape.host_pages),
      host_(layout_.total_bytes()) {
    arrange(shape);
    fill_device(1);
    fill_host(2);
    engine_ = std::make_unique<TransferEngine>(format_, "cpu", shape.device_pages, buffers_, host_,
                                               layout_, CopyOptions{.workers = shape.workers});
}

void TransferPools::arrange(const PoolShape& shape) {
    const int64_t pages = shape.device_pages;
    int64_t at = kGuard;
    std::vector<int64_t> starts;
    buffer_of_.assign(2, std::vector<int>(static_cast<size_t>(shape.layers), -1));
    for (int b = 0; b < 2; ++b) {
        const int64_t row = b == 0 ? shape.latent_row : kIndexRow;
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
                    const int64_t stride = (row + 12) * shape.rows + 20;
                    buffers_.push_back({0, stride, shape.rows, row, row + 12});
                    starts.push_back(at);
                    at += stride * pages;
                    break;
                }
                case Arrangement::kPackedPages:
                    buffers_.push_back({0, format_.page_bytes(), shape.rows, row, row});
                    starts.push_back(kGuard + format_.layer_start(layer) +
                                     format_.start_in_layer(b, layer));
                    at = kGuard + format_.page_bytes() * pages;
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
        for (const Place& row : places(0, page, layer)) {
            record.insert(record.end(), device_.begin() + row.device,
                          device_.begin() + row.device + row.bytes);
        }
    }
    return record;
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
