#include "backends/cuda/stream_memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {
namespace {

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

constexpr unsigned kVersion = 11070;

}  // namespace

void queue_wait(cudaStream_t stream, uint64_t address, uint32_t value) {
    static const auto function = reinterpret_cast<PFN_cuStreamWaitValue32_v11070>(
        driver_function("cuStreamWaitValue32", kVersion));
    require_driver(function(stream, address, value, CU_STREAM_WAIT_VALUE_GEQ),
                   "cuStreamWaitValue32");
}

void queue_write(cudaStream_t stream, uint64_t address, uint32_t value) {
    static const auto function = reinterpret_cast<PFN_cuStreamWriteValue32_v11070>(
        driver_function("cuStreamWriteValue32", kVersion));
    require_driver(function(stream, address, value, CU_STREAM_WRITE_VALUE_DEFAULT),
                   "cuStreamWriteValue32");
}

}  // namespace hicache::cuda
