#include "backends/cuda/page_kernel.h"

namespace hicache::cuda {
namespace {

// Few warps with many loads in flight each: a load from host memory takes about a microsecond, and
// with fewer registers a thread the compiler spills.
constexpr int kThreads = 512;
constexpr unsigned kWarp = 32;
constexpr int kLoads = 8;  // in flight, of a thread
constexpr unsigned kLongestPiece = kWarp * kLoads;
constexpr int kPartsHeld = 64;

// A segment as the warps of a launch share it out: pages are cut into pieces of equal length, and
// each warp takes one and goes on by as many pieces as there are warps.
struct Part {
    char* other;  // where page 0 lies
    int64_t other_stride;
    char* device;
    int64_t device_stride;
    int64_t row_stride;
    unsigned units_of_row;
    unsigned units_of_page;
    unsigned unit;
    unsigned units_of_piece;
    unsigned pieces;  // of a page
    unsigned step_pages;
    unsigned step_pieces;
};

__device__ unsigned warps_of_launch() {
    return gridDim.x * (blockDim.x / kWarp);
}

__device__ Part part_of(const KernelSegment& segment, char* other, int64_t other_stride) {
    Part part;
    part.other = other;
    part.other_stride = other_stride;
    part.device = reinterpret_cast<char*>(segment.device);
    part.device_stride = segment.device_stride;
    part.row_stride = segment.row_stride;
    part.units_of_row = static_cast<unsigned>(segment.units_of_row);
    part.units_of_page = static_cast<unsigned>(segment.units_of_page);
    part.unit = static_cast<unsigned>(segment.unit);
    part.pieces = (part.units_of_page + kLongestPiece - 1) / kLongestPiece;
    const unsigned even = (part.units_of_page + part.pieces - 1) / part.pieces;
    part.units_of_piece = (even + kWarp - 1) / kWarp * kWarp;
    part.step_pages = warps_of_launch() / part.pieces;
    part.step_pieces = warps_of_launch() % part.pieces;
    return part;
}

// A warp moves one piece of a page. All its loads are under way before the first store. other,
// device: the page on both sides. kPacked: its rows follow each other on the device without a gap.
template <typename Unit, bool kPacked>
__device__ __forceinline__ void move_piece(const Part& part, char* other, char* device,
                                           unsigned piece, bool to_device) {
    const unsigned first = piece * part.units_of_piece;
    const unsigned end = min(first + part.units_of_piece, part.units_of_page);
    const unsigned mine = first + threadIdx.x % kWarp;
    const auto on_other = [&](unsigned unit) { return reinterpret_cast<Unit*>(other) + unit; };
    const auto on_device = [&](unsigned unit) {
        if (kPacked) return reinterpret_cast<Unit*>(device) + unit;
        const unsigned row = unit / part.units_of_row;
        return reinterpret_cast<Unit*>(device + row * part.row_stride) +
               (unit - row * part.units_of_row);
    };
    Unit held[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const unsigned unit = mine + i * kWarp;
        if (unit < end) held[i] = __ldcs(to_device ? on_other(unit) : on_device(unit));
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const unsigned unit = mine + i * kWarp;
        if (unit < end) *(to_device ? on_device(unit) : on_other(unit)) = held[i];
    }
}

// turn: of this warp's next piece, counted from the first piece of the part; left at that of the
// next part. kInBay: pages lie in the order of the pairs on the other side.
template <bool kInBay, typename Unit, bool kPacked>
__device__ __forceinline__ void move_pages(const Part& part, const PagePair* pairs, int64_t pages,
                                           bool to_device, unsigned& turn) {
    int64_t page = turn / part.pieces;
    unsigned piece = turn % part.pieces;
    PagePair pair{};
    if (page < pages) pair = pairs[page];
    while (page < pages) {
        char* const other = part.other + (kInBay ? page : pair.host) * part.other_stride;
        char* const device = part.device + pair.device * part.device_stride;
        const unsigned here = piece;
        page += part.step_pages;
        piece += part.step_pieces;
        if (piece >= part.pieces) {
            piece -= part.pieces;
            ++page;
        }
        if (page < pages) pair = pairs[page];  // under way while this piece moves
        move_piece<Unit, kPacked>(part, other, device, here, to_device);
    }
    turn = static_cast<unsigned>(page - pages) * part.pieces + piece;
}

template <bool kInBay, typename Unit>
__device__ __forceinline__ void move_part(const Part& part, const PagePair* pairs, int64_t pages,
                                          bool to_device, unsigned& turn) {
    if (part.units_of_row == part.units_of_page) {
        move_pages<kInBay, Unit, true>(part, pairs, pages, to_device, turn);
    } else {
        move_pages<kInBay, Unit, false>(part, pairs, pages, to_device, turn);
    }
}

// part_at(s): segment s as a part. What all warps need of it is worked out once a block.
template <bool kInBay, typename PartAt>
__device__ __forceinline__ void move_parts(int64_t first, int64_t last, const PagePair* pairs,
                                           int64_t pages, bool to_device, PartAt part_at) {
    __shared__ Part parts[kPartsHeld];
    // Neighbours go to different blocks, so that few pages keep all of them busy.
    unsigned turn = threadIdx.x / kWarp * gridDim.x + blockIdx.x;
    for (; first < last; first += kPartsHeld) {
        const auto count = static_cast<unsigned>(min(int64_t{kPartsHeld}, last - first));
        __syncthreads();
        if (threadIdx.x < count) parts[threadIdx.x] = part_at(first + threadIdx.x);
        __syncthreads();
        for (unsigned i = 0; i < count; ++i) {
            const Part& part = parts[i];
            switch (part.unit) {  // the same for all threads
                case 16:
                    move_part<kInBay, uint4>(part, pairs, pages, to_device, turn);
                    break;
                case 8:
                    move_part<kInBay, uint2>(part, pairs, pages, to_device, turn);
                    break;
                case 4:
                    move_part<kInBay, unsigned>(part, pairs, pages, to_device, turn);
                    break;
                case 2:
                    move_part<kInBay, unsigned short>(part, pairs, pages, to_device, turn);
                    break;
                default:
                    move_part<kInBay, unsigned char>(part, pairs, pages, to_device, turn);
            }
        }
    }
}

__global__ void __launch_bounds__(kThreads)
    move_segments_kernel(const KernelSegment* __restrict__ segments, int num_segments,
                         const PagePair* __restrict__ pairs, int64_t pages, bool to_device) {
    move_parts<false>(0, num_segments, pairs, pages, to_device, [&](int64_t s) {
        const KernelSegment segment = segments[s];
        return part_of(segment, reinterpret_cast<char*>(segment.other), segment.other_stride);
    });
}

__global__ void __launch_bounds__(kThreads)
    move_tile_kernel(const KernelSegment* __restrict__ segments,
                     const KernelEntry* __restrict__ entries, const PagePair* __restrict__ pairs,
                     KernelTile tile, bool to_device) {
    const int64_t start = entries[tile.first_layer].in_record;
    const KernelEntry end = entries[tile.last_layer - 1];
    const int64_t page_bytes = end.in_record + end.bytes - start;
    const int64_t first = entries[tile.first_layer].first_segment;
    const int64_t last = entries[tile.last_layer].first_segment;
    move_parts<true>(first, last, pairs, tile.pages, to_device, [&](int64_t s) {
        int layer = tile.first_layer;
        while (entries[layer + 1].first_segment <= s)
            ++layer;
        const KernelEntry entry = entries[layer];
        const int64_t before = (entry.in_record - start) * (tile.by_page ? 1 : tile.pages);
        const KernelSegment segment = segments[s];
        return part_of(segment, reinterpret_cast<char*>(tile.bay) + before + segment.other,
                       tile.by_page ? page_bytes : entry.bytes);
    });
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
    const cudaError_t status = cudaFuncGetAttributes(&attributes, move_segments_kernel);
    return status != cudaSuccess ? status : cudaFuncGetAttributes(&attributes, move_tile_kernel);
}

cudaError_t move_segments(const KernelSegment* segments, int num_segments, const PagePair* pairs,
                          int64_t pages, bool to_device, int blocks, cudaStream_t stream) {
    if (num_segments == 0 || pages == 0) return cudaSuccess;
    move_segments_kernel<<<blocks, kThreads, 0, stream>>>(segments, num_segments, pairs, pages,
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
