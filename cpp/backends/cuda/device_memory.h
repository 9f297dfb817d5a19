// Memory of the device, and pinned memory of our own: freed at the end.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

// Requires: the device is current when it is made.
class DeviceMemory {
  public:
    DeviceMemory() = default;
    // Throws: std::runtime_error if there is too little.
    explicit DeviceMemory(size_t bytes);
    ~DeviceMemory();
    DeviceMemory(DeviceMemory&& other) noexcept;
    DeviceMemory& operator=(DeviceMemory&& other) noexcept;

    [[nodiscard]] void* get() const { return memory_; }

  private:
    void* memory_ = nullptr;
};

class PinnedMemory {
  public:
    // Throws: std::runtime_error if none can be had.
    explicit PinnedMemory(size_t bytes);
    ~PinnedMemory();
    PinnedMemory(const PinnedMemory&) = delete;
    PinnedMemory& operator=(const PinnedMemory&) = delete;

    [[nodiscard]] void* get() const { return memory_; }

  private:
    void* memory_ = nullptr;
};

// Constant values that kernels read.
template <typename Value>
class DeviceArray {
  public:
    DeviceArray() = default;
    // Requires: the device is current. Throws: std::runtime_error if there is too little memory.
    explicit DeviceArray(const std::vector<Value>& values)
        : memory_(values.size() * sizeof(Value)) {
        require(cudaMemcpy(memory_.get(), values.data(), values.size() * sizeof(Value),
                           cudaMemcpyHostToDevice),
                "Copying ", values.size(), " values to the GPU");
    }

    [[nodiscard]] const Value* get() const { return static_cast<const Value*>(memory_.get()); }

  private:
    DeviceMemory memory_;
};

}  // namespace hicache::cuda
