// A kernel that takes digests of pages of device memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/cuda/digest_words.h"
#include "backends/cuda/page_kernel.h"

namespace hicache::cuda {

// What one launch looks at: layers [first_layer, last_layer) of all pages of a copy.
struct DigestTask {
    const DigestSegment* segments;  // of all layers
    const DigestLayer* layers;      // one more than there are
    const PagePair* pairs;
    int64_t pages;
    int first_layer;
    int last_layer;
    DigestSample sample;
    uint64_t* found;  // [layer of the task][page]; left as it is where the sample has it not
};

// Has the driver load the kernel now, see load_kernels(). Requires: the device is current.
cudaError_t load_digest_kernel();

// With at most `blocks` blocks. Requires: the device is current; the arrays are in memory that the
// device reads, found in memory that it writes.
cudaError_t take_digests(const DigestTask& task, int blocks, cudaStream_t stream);

}  // namespace hicache::cuda
