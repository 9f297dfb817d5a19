#include "backends/cuda/page_kernel.h"

namespace hicache::cuda {
namespace {

constexpr int kThreads = 1024;
constexpr int kWarp = 32;
constexpr int kLoads = 4;  // loads in flight of a thread
constexpr int kPiece = kWarp * kLoads;

// A warp moves one piece: kPiece units of one page. All loads are under way before the first store,
// since a load from host memory takes about a microsecond.
template <typename Unit>
__device__ __forceinline__ void move_piece(const KernelSegment& segment, PagePair pair,
                                           int64_t first, int lane, bool to_device) {
    char* const host = reinterpret_cast<char*>(segment.host) + pair.host * segment.host_stride;
    char* const device =
        reinterpret_cast<char*>(segment.device) + pair.device * segment.device_stride;
    const bool packed = segment.units_of_row == segment.units_of_page;
    Unit held[kLoads];
    char* target[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const int64_t unit = first + i * kWarp + lane;
        if (unit >= segment.units_of_page) break;
        int64_t place = unit * static_cast<int64_t>(sizeof(Unit));
        char* const on_host = host + place;
        if (!packed) {
            const int64_t row = unit / segment.units_of_row;
            place = row * segment.row_stride +
                    (unit - row * segment.units_of_row) * static_cast<int64_t>(sizeof(Unit));
        }
        char* const on_device = device + place;
        target[i] = to_device ? on_device : on_host;
        held[i] = __ldcs(reinterpret_cast<const Unit*>(to_device ? on_host : on_device));
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        if (first + i * kWarp + lane >= segment.units_of_page) break;
        *reinterpret_cast<Unit*>(target[i]) = held[i];
    }
}

__global__ void __launch_bounds__(kThreads)
    move_layer_kernel(const KernelSegment* __restrict__ segments, int num_segments,
                      const PagePair* __restrict__ pairs, int64_t pages, bool to_device) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (kThreads / kWarp);
    // Neighbouring pieces go to different blocks, so that few pages keep all of them busy.
    const int64_t warp =
        static_cast<int64_t>(threadIdx.x / kWarp) * gridDim.x + static_cast<int64_t>(blockIdx.x);
    for (int s = 0; s < num_segments; ++s) {
        const KernelSegment segment = segments[s];
        const int64_t pieces = (segment.units_of_page + kPiece - 1) / kPiece;
        for (int64_t task = warp; task < pages * pieces; task += warps) {
            const int64_t page = task / pieces;
            const int64_t first = (task - page * pieces) * kPiece;
            const PagePair pair = pairs[page];
            switch (segment.unit) {  // the same for all threads
                case 16:
                    move_piece<uint4>(segment, pair, first, lane, to_device);
                    break;
                case 8:
                    move_piece<uint2>(segment, pair, first, lane, to_device);
                    break;
                case 4:
                    move_piece<unsigned>(segment, pair, first, lane, to_device);
                    break;
                case 2:
                    move_piece<unsigned short>(segment, pair, first, lane, to_device);
                    break;
                default:
                    move_piece<unsigned char>(segment, pair, first, lane, to_device);
            }
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

cudaError_t load_kernel() {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, move_layer_kernel);
}

cudaError_t move_layer(const KernelSegment* segments, int num_segments, const PagePair* pairs,
                       int64_t pages, bool to_device, int blocks, cudaStream_t stream) {
    if (num_segments == 0 || pages == 0) return cudaSuccess;
    move_layer_kernel<<<blocks, kThreads, 0, stream>>>(segments, num_segments, pairs, pages,
                                                       to_device);
    return cudaGetLastError();
}

}  // namespace hicache::cuda
