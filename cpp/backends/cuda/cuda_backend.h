// The CUDA backend, as the rest of the core sees it. In a build without it a stub says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "transfer/backend.h"

namespace hicache {

extern const bool kCudaBackendBuilt;

// device: "cuda" or "cuda:<index>". Throws: std::runtime_error if it cannot be had.
[[nodiscard]] std::unique_ptr<Backend> create_cuda_backend(const std::string& device,
                                                           BackendSetup setup);

// Index of a device; "cuda" is the thread's current one. Throws: std::runtime_error with CUDA's
// own words if this machine has no such device; std::invalid_argument for another name.
[[nodiscard]] int cuda_device_index(const std::string& device);

// Index of the device that owns the memory at this address.
// Throws: std::runtime_error if it is no device memory.
[[nodiscard]] int cuda_device_of_address(uint64_t address);

}  // namespace hicache
