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

// Where the device is on the PCI bus, "0000:1b:00.0". Throws: as cuda_device_index().
[[nodiscard]] std::string cuda_device_bus_id(const std::string& device);

// What tells this device and its driver from others: name, unique id, bus, version of the driver's
// CUDA. Throws: as cuda_device_index().
[[nodiscard]] std::string cuda_device_identity(const std::string& device);

// Measures what copies cost between this device and pinned host memory, in less than a second, with
// 64 MiB of both. Throws: as cuda_device_index(); std::runtime_error if there is no memory.
[[nodiscard]] LinkCurve measure_cuda_link(const std::string& device);

// Seconds that cudaHostAlloc and cudaFreeHost take for so many bytes; for comparisons.
// Throws: as cuda_device_index(); std::runtime_error if there is no memory.
struct HostAllocSeconds {
    double alloc;
    double free;
};
[[nodiscard]] HostAllocSeconds measure_cuda_host_alloc(const std::string& device, int64_t nbytes);

}  // namespace hicache
