#include "backends/cuda/page_kernel.h"

namespace hicache::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarp = 32;
constexpr int kLoads = 4;  // loads in flight of a thread
constexpr int kPiece = kWarp * kLoads;

// A warp moves one piece: kPiece units of one page. All loads are under way before the first store,
// since a load from host memory takes about a microsecond. other, device: the page on both sides.
template <typename Unit>
__device__ __forceinline__ void move_piece(const KernelSegment& segment, char* other, char* device,
                                           int64_t first, int lane, bool to_device) {
    const bool packed = segment.units_of_row == segment.units_of_page;
    Unit held[kLoads];
    char* target[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const int64_t unit = first + i * kWarp + lane;
        if (unit >= segment.units_of_page) break;
        int64_t place = unit * static_cast<int64_t>(sizeof(Unit));
        char* const on_other = other + place;
        if (!packed) {
            const int64_t row = unit / segment.units_of_row;
            place = row * segment.row_stride +
                    (unit - row * segment.units_of_row) * static_cast<int64_t>(sizeof(Unit));
        }
        char* const on_device = device + place;
        target[i] = to_device ? on_device : on_other;
        held[i] = __ldcs(reinterpret_cast<const Unit*>(to_device ? on_other : on_device));
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        if (first + i * kWarp + lane >= segment.units_of_page) break;
        *reinterpret_cast<Unit*>(target[i]) = held[i];
    }
}

// The pieces of all warps of a launch, dealt out in turn from one segment to the next. Neighbours
// go to different blocks, so that few pages keep all of them busy.
struct Deal {
    int64_t task = static_cast<int64_t>(threadIdx.x / kWarp) * gridDim.x + blockIdx.x;
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (blockDim.x / kWarp);
};

// page_of(i): the i-th page on the other side.
template <typename PageOf>
__device__ __forceinline__ void move_segment(const KernelSegment& segment, const PagePair* pairs,
                                             int64_t pages, bool to_device, PageOf page_of,
                                             Deal& deal) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t pieces = (segment.units_of_page + kPiece - 1) / kPiece;
    const int64_t tasks = pages * pieces;
    for (; deal.task < tasks; deal.task += deal.warps) {
        const int64_t page = deal.task / pieces;
        const int64_t first = (deal.task - page * pieces) * kPiece;
        const PagePair pair = pairs[page];
        char* const other = page_of(page, pair);
        char* const device =
            reinterpret_cast<char*>(segment.device) + pair.device * segment.device_stride;
        switch (segment.unit) {  // the same for all threads
            case 16:
                move_piece<uint4>(segment, other, device, first, lane, to_device);
                break;
            case 8:
                move_piece<uint2>(segment, other, device, first, lane, to_device);
                break;
            case 4:
                move_piece<unsigned>(segment, other, device, first, lane, to_device);
                break;
            case 2:
                move_piece<unsigned short>(segment, other, device, first, lane, to_device);
                break;
            default:
                move_piece<unsigned char>(segment, other, device, first, lane, to_device);
        }
    }
    deal.task -= tasks;
}

__global__ void __launch_bounds__(kThreads)
    move_layer_kernel(const KernelSegment* __restrict__ segments, int num_segments,
                      const PagePair* __restrict__ pairs, int64_t pages, bool to_device) {
    Deal deal;
    for (int s = 0; s < num_segments; ++s) {
        const KernelSegment segment = segments[s];
        const auto in_pool = [&](int64_t, PagePair pair) {
            return reinterpret_cast<char*>(segment.other) + pair.host * segment.other_stride;
        };
        move_segment(segment, pairs, pages, to_device, in_pool, deal);
    }
}

__global__ void __launch_bounds__(kThreads)
    move_tile_kernel(const KernelSegment* __restrict__ segments,
                     const KernelEntry* __restrict__ entries, const PagePair* __restrict__ pairs,
                     KernelTile tile, bool to_device) {
    Deal deal;
    const int64_t start = entries[tile.first_layer].in_record;
    const KernelEntry end = entries[tile.last_layer - 1];
    const int64_t page_bytes = end.in_record + end.bytes - start;
    for (int layer = tile.first_layer; layer < tile.last_layer; ++layer) {
        const KernelEntry entry = entries[layer];
        const int64_t before = (entry.in_record - start) * (tile.by_page ? 1 : tile.pages);
        const int64_t stride = tile.by_page ? page_bytes : entry.bytes;
        char* const base = reinterpret_cast<char*>(tile.bay) + before;
        const int64_t next = entries[layer + 1].first_segment;
        for (int64_t s = entry.first_segment; s < next; ++s) {
            const KernelSegment segment = segments[s];
            const auto in_bay = [&](int64_t page, PagePair) {
                return base + page * stride + segment.other;
            };
            move_segment(segment, pairs, tile.pages, to_device, in_bay, deal);
        }
    }
}

}  // namespace

int64_t largest_unit(uint64_t all_addresses_and_strides) {
    int64_t unit = 16;
    while (all_addresses_and_strides % static_cast<uint64_t>(unit) != 0)
        unit /= 2;
    return unit;
}

cudaError_t load_kernels() {
    cudaFuncAttributes attributes{};
    const cudaError_t status = cudaFuncGetAttributes(&attributes, move_layer_kernel);
    return status != cudaSuccess ? status : cudaFuncGetAttributes(&attributes, move_tile_kernel);
}

cudaError_t move_layer(const KernelSegment* segments, int num_segments, const PagePair* pairs,
                       int64_t pages, bool to_device, int blocks, cudaStream_t stream) {
    if (num_segments == 0 || pages == 0) return cudaSuccess;
    move_layer_kernel<<<blocks, kThreads, 0, stream>>>(segments, num_segments, pairs, pages,
                                                       to_device);
    return cudaGetLastError();
}

cudaError_t move_tile(const KernelSegment* segments, const KernelEntry* entries,
                      const PagePair* pairs, const KernelTile& tile, bool to_device, int blocks,
                      cudaStream_t stream) {
    move_tile_kernel<<<blocks, kThreads, 0, stream>>>(segments, entries, pairs, tile, to_device);
    return cudaGetLastError();
}

}  // namespace hicache::cuda
