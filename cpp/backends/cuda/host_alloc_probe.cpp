#include <chrono>
#include <cstring>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_call.h"

namespace hicache {
namespace {

double seconds_since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

HostAllocSeconds measure_cuda_host_alloc(const std::string& device, int64_t nbytes) {
    using Clock = std::chrono::steady_clock;
    if (nbytes <= 0) bad_argument("nbytes is ", nbytes, "; it must be above 0.");
    const cuda::DeviceScope scope(cuda_device_index(device));
    cuda::require(cudaFree(nullptr), "Starting CUDA");  // what the first call costs is not counted
    void* memory = nullptr;
    const auto begun = Clock::now();
    cuda::require(cudaHostAlloc(&memory, static_cast<size_t>(nbytes),
                                cudaHostAllocPortable | cudaHostAllocMapped),
                  "cudaHostAlloc of ", nbytes, " bytes");
    const double alloc = seconds_since(begun);
    const auto done = Clock::now();
    cuda::require(cudaFreeHost(memory), "cudaFreeHost");
    return {alloc, seconds_since(done)};
}

}  // namespace hicache
