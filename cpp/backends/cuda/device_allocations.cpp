#include "backends/cuda/device_allocations.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include "backends/cuda/driver_call.h"

namespace hicache::cuda {

std::optional<uint64_t> end_of_allocation(uint64_t address) {
    static const auto function = reinterpret_cast<PFN_cuMemGetAddressRange_v3020>(
        driver_function("cuMemGetAddressRange", 3020));
    CUdeviceptr start = 0;
    size_t bytes = 0;
    if (function(&start, &bytes, address) != CUDA_SUCCESS) return std::nullopt;
    return start + bytes;
}

bool one_allocation(uint64_t first, uint64_t last) {
    const auto end = end_of_allocation(first);
    return end && last < *end;
}

}  // namespace hicache::cuda
