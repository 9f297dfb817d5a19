#include "backends/cuda/pinned_pool.h"

#include <utility>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {
namespace {

constexpr int64_t kChunk = int64_t{64} << 30;

PinResult pin_chunk(std::byte* begin, int64_t bytes, std::string& text) {
    constexpr unsigned kFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
    const cudaError_t status = cudaHostRegister(begin, static_cast<size_t>(bytes), kFlags);
    if (status == cudaSuccess) return PinResult::kPinned;
    static_cast<void>(cudaGetLastError());
    if (status == cudaErrorHostMemoryAlreadyRegistered) return PinResult::kAlready;
    text = message(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
    return PinResult::kRefused;
}

}  // namespace

PinnedPool::PinnedPool(int device, HostMemory host, const CopyOptions& options)
    : device_(device), host_(std::move(host)) {
    if (options.pinning == Pinning::kNever || host_.nbytes() == 0) return;
    const DeviceScope scope(device_);
    const int64_t chunk = options.pin_chunk_bytes > 0 ? options.pin_chunk_bytes : kChunk;
    regions_.emplace(host_.data(), host_.nbytes(), chunk,
                     Registrar{pin_chunk, [](std::byte* begin) {
                                   static_cast<void>(accept(cudaHostUnregister(begin)));
                               }});
    if (regions_->pinned()) {
        cut_bytes_ = chunk < host_.nbytes() ? chunk : 0;
        look_from_device();
        return;
    }
    if (options.pinning == Pinning::kAlways) bad_state(*regions_->refusal());
    warning_ = message(*regions_->refusal(),
                       "; the host pool stays pageable and copies are several times slower.");
}

void PinnedPool::look_from_device() {
    int same_address = 0;
    require(cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem,
                                   device_),
            "Asking how the GPU sees host memory");
    void* address = nullptr;
    if (same_address != 0) {
        device_address_ = reinterpret_cast<uint64_t>(host_.data());
    } else if (cut_bytes_ == 0 && accept(cudaHostGetDevicePointer(&address, host_.data(), 0))) {
        device_address_ = reinterpret_cast<uint64_t>(address);
    }
}

void PinnedPool::unpin() {
    const OutsideCapture outside;
    regions_.reset();
}

}  // namespace hicache::cuda
