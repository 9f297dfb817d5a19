// The stand-in's calls about devices and memory: see stand_in.h.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <string_view>
#include <utility>

#include "tests/cuda/registered_memory.h"
#include "tests/cuda/runtime_errors.h"
#include "tests/cuda/stand_in.h"
#include "tests/cuda/stream_threads.h"

namespace hicache::testing_support {
namespace {

std::atomic<int> refusals{0};
std::mutex refused_mutex;
std::function<bool(const std::byte*, size_t)> refused_registrations;

bool registration_refused(const void* begin, size_t bytes) {
    std::lock_guard lock(refused_mutex);
    return refused_registrations &&
           refused_registrations(static_cast<const std::byte*>(begin), bytes);
}

thread_local cudaError_t last_error = cudaSuccess;

CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned /*flags*/) {
    if (queueing_fails()) return CUDA_ERROR_INVALID_VALUE;
    stream->queue([=] {
        const std::atomic_ref word(*reinterpret_cast<uint32_t*>(address));
        look_until([&] {
            return static_cast<int32_t>(word.load(std::memory_order_acquire) - value) >= 0;
        });
    });
    return CUDA_SUCCESS;
}

CUresult write_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned /*flags*/) {
    if (queueing_fails()) return CUDA_ERROR_INVALID_VALUE;
    stream->queue([=] {
        std::atomic_ref(*reinterpret_cast<uint32_t*>(address))
            .store(value, std::memory_order_release);
    });
    return CUDA_SUCCESS;
}

// Device memory is one allocation without an end.
CUresult address_range(CUdeviceptr* begin, size_t* bytes, CUdeviceptr address) {
    const auto range = RegisteredMemory::all().around(reinterpret_cast<const void*>(address));
    *begin = range ? reinterpret_cast<CUdeviceptr>(range->first) : 0;
    *bytes = range ? range->second : ~size_t{0} / 2;
    return CUDA_SUCCESS;
}

}  // namespace

cudaError_t with_error(cudaError_t status) {
    if (status != cudaSuccess) last_error = status;
    return status;
}

NoPinnedMemory::NoPinnedMemory() {
    ++refusals;
}
NoPinnedMemory::~NoPinnedMemory() {
    --refusals;
}

RefusedRegistrations::RefusedRegistrations(
    std::function<bool(const std::byte* begin, size_t bytes)> refused) {
    std::lock_guard lock(refused_mutex);
    refused_registrations = std::move(refused);
}
RefusedRegistrations::~RefusedRegistrations() {
    std::lock_guard lock(refused_mutex);
    refused_registrations = nullptr;
}

std::vector<std::pair<const std::byte*, size_t>> registrations() {
    return RegisteredMemory::all().ranges();
}

}  // namespace hicache::testing_support

using namespace hicache::testing_support;

cudaError_t cudaGetLastError() {
    return std::exchange(last_error, cudaSuccess);
}
const char* cudaGetErrorName(cudaError_t status) {
    return status == cudaErrorMemoryAllocation ? "cudaErrorMemoryAllocation" : "an error by name";
}
const char* cudaGetErrorString(cudaError_t /*status*/) {
    return "an error of the stand-in";
}

cudaError_t cudaGetDeviceCount(int* count) {
    *count = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
    *device = 0;
    return cudaSuccess;
}
cudaError_t cudaSetDevice(int /*device*/) {
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr /*which*/, int /*device*/) {
    *value = 1;
    return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int /*device*/) {
    *properties = {};
    return cudaSuccess;
}
cudaError_t cudaDeviceGetPCIBusId(char* id, int bytes, int /*device*/) {
    std::strncpy(id, "0000:00:00.0", static_cast<size_t>(bytes));
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* found) {
    const std::string_view wanted(name);
    *function = nullptr;
    if (wanted == "cuStreamWaitValue32") *function = reinterpret_cast<void*>(wait_value);
    if (wanted == "cuStreamWriteValue32") *function = reinterpret_cast<void*>(write_value);
    if (wanted == "cuMemGetAddressRange") *function = reinterpret_cast<void*>(address_range);
    *found = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) {
    constexpr size_t kAlignment = 256;
    *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
    return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
    if (refusals > 0) return with_error(cudaErrorMemoryAllocation);
    *memory = std::malloc(bytes);
    RegisteredMemory::all().add(*memory, bytes);
    return cudaSuccess;
}
cudaError_t cudaFreeHost(void* memory) {
    RegisteredMemory::all().remove(memory);
    std::free(memory);
    return cudaSuccess;
}
cudaError_t cudaHostRegister(void* begin, size_t bytes, unsigned /*flags*/) {
    if (registration_refused(begin, bytes)) return with_error(cudaErrorMemoryAllocation);
    const bool added = RegisteredMemory::all().add(begin, bytes);
    return with_error(added ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}
cudaError_t cudaHostUnregister(void* begin) {
    const bool removed = RegisteredMemory::all().remove(begin);
    return with_error(removed ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned /*flags*/) {
    *device = host;
    return cudaSuccess;
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
    *attributes = {};
    attributes->type =
        RegisteredMemory::all().around(address) ? cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
    return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/) {
    std::memcpy(to, from, bytes);
    return cudaSuccess;
}
