#include "backends/cuda/device_allocations.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include "backends/cuda/driver_call.h"

namespace hicache::cuda {

bool one_allocation(uint64_t first, uint64_t last) {
    static const auto function = reinterpret_cast<PFN_cuMemGetAddressRange_v3020>(
        driver_function("cuMemGetAddressRange", 3020));
    CUdeviceptr start = 0;
    size_t bytes = 0;
    if (function(&start, &bytes, first) != CUDA_SUCCESS) return false;
    return first >= start && last < start + bytes;
}

}  // namespace hicache::cuda
