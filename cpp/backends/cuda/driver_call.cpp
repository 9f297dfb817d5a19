#include "backends/cuda/driver_call.h"

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

void* driver_function(const char* name, unsigned version) {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found{};
    require(cudaGetDriverEntryPointByVersion(name, &function, version, cudaEnableDefault, &found),
            "Looking up ", name);
    if (found != cudaDriverEntryPointSuccess || function == nullptr) {
        bad_state("The CUDA driver has no ", name, "; a newer driver is needed.");
    }
    return function;
}

void require_driver(CUresult status, const char* what) {
    if (status != CUDA_SUCCESS) {
        bad_state(what, " failed: CUDA driver error ", static_cast<int>(status), ".");
    }
}

}  // namespace hicache::cuda
