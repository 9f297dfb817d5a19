// backends/cuda/page_kernel.h on the stand-in's streams, by loops that do what the header says: see
// stand_in.h. Pages have no order among each other, so they are moved in a random one.
#include "backends/cuda/page_kernel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda/registered_memory.h"
#include "tests/cuda/runtime_errors.h"
#include "tests/cuda/stream_threads.h"

namespace hicache::cuda {
namespace {

using testing_support::queueing_fails;
using testing_support::with_error;

// other, device: the page on both sides.
void move_page(const KernelSegment& segment, uint64_t other, uint64_t device, bool to_device) {
    const int64_t row_bytes = segment.units_of_row * segment.unit;
    for (int64_t row = 0; row < segment.units_of_page / segment.units_of_row; ++row) {
        const uint64_t here = other + static_cast<uint64_t>(row * row_bytes);
        const uint64_t there = device + static_cast<uint64_t>(row * segment.row_stride);
        if ((here | there) % static_cast<uint64_t>(segment.unit) != 0) {
            ADD_FAILURE() << "a GPU would refuse units of " << segment.unit << " bytes at " << here
                          << " and " << there;
            return;
        }
        auto* to = reinterpret_cast<std::byte*>(there);
        auto* from = reinterpret_cast<std::byte*>(here);
        if (!to_device) std::swap(to, from);
        std::memcpy(to, from, static_cast<size_t>(row_bytes));
    }
}

std::vector<int64_t> shuffled(int64_t pages) {
    std::vector<int64_t> order(static_cast<size_t>(pages));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::minstd_rand(static_cast<unsigned>(pages)));
    return order;
}

uint64_t device_page(const KernelSegment& segment, const PagePair& pair) {
    return segment.device + static_cast<uint64_t>(pair.device * segment.device_stride);
}

}  // namespace

int64_t largest_unit(uint64_t all_addresses_and_strides) {
    for (const int64_t unit : {16, 8, 4, 2}) {
        if (all_addresses_and_strides % static_cast<uint64_t>(unit) == 0) return unit;
    }
    return 1;
}

cudaError_t load_kernels() {
    return cudaSuccess;
}

cudaError_t move_segments(const KernelSegment* segments, int num_segments, const PagePair* pairs,
                          int64_t pages, bool to_device, int blocks, cudaStream_t stream) {
    if (blocks <= 0 || queueing_fails()) return with_error(cudaErrorInvalidValue);
    stream->queue([=] {
        for (const int64_t page : shuffled(pages)) {
            const PagePair& pair = pairs[page];
            for (int s = 0; s < num_segments; ++s) {
                const KernelSegment& segment = segments[s];
                const auto shift = static_cast<uint64_t>(pair.host * segment.other_stride);
                const auto* const host = reinterpret_cast<const void*>(segment.other + shift);
                if (!testing_support::RegisteredMemory::all().around(host)) {
                    ADD_FAILURE() << "a GPU does not see host memory that is not registered";
                }
                move_page(segment, segment.other + shift, device_page(segment, pair), to_device);
            }
        }
    });
    return cudaSuccess;
}

cudaError_t move_tile(const KernelSegment* segments, const KernelEntry* entries,
                      const PagePair* pairs, const KernelTile& tile, bool to_device, int blocks,
                      cudaStream_t stream) {
    if (blocks <= 0 || queueing_fails()) return with_error(cudaErrorInvalidValue);
    stream->queue([=] {
        const int64_t start = entries[tile.first_layer].in_record;
        const KernelEntry& last = entries[tile.last_layer - 1];
        const int64_t page_bytes = last.in_record + last.bytes - start;
        for (const int64_t page : shuffled(tile.pages)) {
            for (int layer = tile.first_layer; layer < tile.last_layer; ++layer) {
                const KernelEntry& entry = entries[layer];
                const int64_t before = entry.in_record - start;
                const int64_t in_bay = tile.by_page ? page * page_bytes + before
                                                    : tile.pages * before + page * entry.bytes;
                for (int64_t s = entry.first_segment; s < entries[layer + 1].first_segment; ++s) {
                    const uint64_t other =
                        tile.bay + static_cast<uint64_t>(in_bay) + segments[s].other;
                    move_page(segments[s], other, device_page(segments[s], pairs[page]), to_device);
                }
            }
        }
    });
    return cudaSuccess;
}

}  // namespace hicache::cuda
