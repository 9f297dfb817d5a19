// The kernel that moves one layer of pages between device memory and pinned host memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hicache::cuda {

// One segment of one layer, as the kernel reads it. `unit`: bytes a thread moves at a time, which
// all addresses and strides of the segment are a multiple of.
struct KernelSegment {
    uint64_t host;  // address of page 0 as the device sees it
    int64_t host_stride;
    uint64_t device;
    int64_t device_stride;
    int64_t row_stride;     // device rows
    int64_t units_of_row;   // a page is units_of_page / units_of_row rows; packed pages have one
    int64_t units_of_page;  // contiguous on the host
    int64_t unit;           // 16, 8, 4, 2 or 1
};

struct PagePair {
    int64_t host;
    int64_t device;
};

// The largest unit that divides all of these.
[[nodiscard]] int64_t largest_unit(uint64_t all_addresses_and_strides);

// Has the driver load the kernel now: a first launch would load it then, which may wait for every
// stream of the device, also for one that waits for the very copy. Requires: the device is current.
cudaError_t load_kernel();

// Moves `pages` pages of `segments` segments (both arrays in device memory) with at most `blocks`
// blocks. Requires: to_device pages are named once; the device is current.
cudaError_t move_layer(const KernelSegment* segments, int num_segments, const PagePair* pairs,
                       int64_t pages, bool to_device, int blocks, cudaStream_t stream);

}  // namespace hicache::cuda
