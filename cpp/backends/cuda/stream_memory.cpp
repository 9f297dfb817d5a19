#include "backends/cuda/stream_memory.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#include "backends/cuda/driver_call.h"

namespace hicache::cuda {
namespace {

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
