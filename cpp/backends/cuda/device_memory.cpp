#include "backends/cuda/device_memory.h"

#include <algorithm>
#include <utility>

namespace hicache::cuda {

DeviceMemory::DeviceMemory(size_t bytes) {
    require(cudaMalloc(&memory_, std::max<size_t>(bytes, 1)), "Allocating ", bytes,
            " bytes on the GPU");
}

DeviceMemory::~DeviceMemory() {
    if (memory_ != nullptr) static_cast<void>(accept(cudaFree(memory_)));
}

DeviceMemory::DeviceMemory(DeviceMemory&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)) {}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
    std::swap(memory_, other.memory_);
    return *this;
}

PinnedMemory::PinnedMemory(size_t bytes) {
    require(cudaHostAlloc(&memory_, bytes, cudaHostAllocDefault), "Pinning ", bytes, " bytes");
}

PinnedMemory::~PinnedMemory() {
    static_cast<void>(accept(cudaFreeHost(memory_)));
}

}  // namespace hicache::cuda
