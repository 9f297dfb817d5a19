// Kernels that move pages of device memory: to and from pinned host memory, or a staging bay.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hicache::cuda {

// One segment of one layer, as kernels read it. `unit`: bytes a thread moves at a time, which all
// addresses and strides of the segment are a multiple of.
struct KernelSegment {
    uint64_t other;  // address of page 0 in the host pool; for bays: offset in the layer's entry
    int64_t other_stride;  // from a page to the next there; for bays unused
    uint64_t device;
    int64_t device_stride;
    int64_t row_stride;     // device rows
    int64_t units_of_row;   // a page is units_of_page / units_of_row rows; packed pages have one
    int64_t units_of_page;  // contiguous on the other side, kMostUnits at most
    int64_t unit;           // 16, 8, 4, 2 or 1
};

// The kernels count the units of a page in 32 bits.
inline constexpr int64_t kMostUnits = (int64_t{1} << 31) - 1;

struct PagePair {
    int64_t host;
    int64_t device;
};

// A layer's entry in the host pool, and with it in a bay.
struct KernelEntry {
    int64_t in_record;  // bytes of the layers before it
    int64_t bytes;
    int64_t first_segment;  // of the next layer: the end
};

// What one bay of the staging ring holds, see transfer/stage_plan.h.
struct KernelTile {
    uint64_t bay;
    int first_layer;
    int last_layer;
    int64_t pages;
    bool by_page;  // each page has its layers side by side; else each layer its pages
};

// The largest unit that divides all of these.
[[nodiscard]] int64_t largest_unit(uint64_t all_addresses_and_strides);

// Has the driver load the kernels now: a first launch would load them then, which may wait for
// every stream of the device, also for one that waits for the very copy. Requires: the device is
// current.
cudaError_t load_kernels();

// Moves `pages` pages of `segments` segments (both arrays in device memory) with at most `blocks`
// blocks. Requires: to_device pages are named once; the device is current.
cudaError_t move_segments(const KernelSegment* segments, int num_segments, const PagePair* pairs,
                          int64_t pages, bool to_device, int blocks, cudaStream_t stream);

// The same between a bay and the tile's pages; pairs: of the tile's first page on. entries: one
// more than layers.
cudaError_t move_tile(const KernelSegment* segments, const KernelEntry* entries,
                      const PagePair* pairs, const KernelTile& tile, bool to_device, int blocks,
                      cudaStream_t stream);

}  // namespace hicache::cuda
