#include "backends/cuda/pinned_pool.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/device_allocations.h"

namespace hicache::cuda {
namespace {

constexpr int64_t kChunk = int64_t{64} << 30;

// Registrations of this process's engines: those of one host pool share them.
class Registrations {
  public:
    static Registrations& all() {
        static auto* const all = new Registrations;
        return *all;
    }

    // Bytes of the chunk in which an engine has pinned memory from there on; nullopt if none has.
    std::optional<int64_t> chunk_at(std::byte* begin) {
        std::lock_guard lock(mutex_);
        const auto chunk = users_.lower_bound({begin, 0});
        if (chunk == users_.end() || chunk->first.first != begin) return std::nullopt;
        return chunk->first.second;
    }

    PinResult pin(std::byte* begin, int64_t bytes, std::string& text) {
        std::lock_guard lock(mutex_);
        if (const auto ours = users_.find({begin, bytes}); ours != users_.end()) {
            ++ours->second;
            return PinResult::kPinned;
        }
        constexpr unsigned kFlags = cudaHostRegisterPortable | cudaHostRegisterMapped;
        const cudaError_t status = cudaHostRegister(begin, static_cast<size_t>(bytes), kFlags);
        if (status == cudaSuccess) {
            users_[{begin, bytes}] = 1;
            return PinResult::kPinned;
        }
        static_cast<void>(cudaGetLastError());
        if (status == cudaErrorHostMemoryAlreadyRegistered) {
            require_same_chunks(begin, bytes);
            if (covered(begin, bytes)) return PinResult::kAlready;
            bad_state(
                "A part of the host pool's ", bytes, " bytes at ", static_cast<void*>(begin),
                " is registered with CUDA already, and not all of it: no copy may cross such a "
                "border. Unregister that part first.");
        }
        text = message(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
        return PinResult::kRefused;
    }

    void unpin(std::byte* begin, int64_t bytes) {
        std::lock_guard lock(mutex_);
        const auto ours = users_.find({begin, bytes});
        if (--ours->second > 0) return;
        users_.erase(ours);
        static_cast<void>(accept(cudaHostUnregister(begin)));
    }

  private:
    // Memory that another engine of this process has pinned in other chunks: copies must not cross
    // their borders, and they end with that engine.
    void require_same_chunks(const std::byte* begin, int64_t bytes) const {
        for (const auto& [chunk, users] : users_) {
            if (chunk.first < begin + bytes && begin < chunk.first + chunk.second) {
                bad_state("Another engine has pinned this host pool in chunks of ", chunk.second,
                          " bytes, this one asks for ", bytes,
                          "; give both the same pin_chunk_bytes, or this one none.");
            }
        }
    }

    // Whether somebody else has registered all of it, as one: no copy may cross the end of a
    // registration. Where the driver does not tell where one ends, some thousand places are looked
    // at.
    static bool covered(const std::byte* begin, int64_t bytes) {
        const auto start = reinterpret_cast<uint64_t>(begin);
        const uint64_t end = start + static_cast<uint64_t>(bytes);
        if (const auto known = end_of_allocation(start)) {
            return registered(start) && *known >= end;
        }
        const uint64_t step = std::max<uint64_t>(64 << 10, static_cast<uint64_t>(bytes) / 4096);
        for (uint64_t at = start; at < end; at += step) {
            if (!registered(at)) return false;
        }
        return registered(end - 1);
    }

    static bool registered(uint64_t address) {
        cudaPointerAttributes attributes{};
        return accept(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(address))) &&
               attributes.type == cudaMemoryTypeHost;
    }

    std::mutex mutex_;
    std::map<std::pair<std::byte*, int64_t>, int> users_;
};

}  // namespace

PinnedPool::PinnedPool(int device, HostMemory host, const CopyOptions& options)
    : device_(device), host_(std::move(host)) {
    if (options.pinning == Pinning::kNever || host_.nbytes() == 0) return;
    const DeviceScope scope(device_);
    const int64_t chunk = options.pin_chunk_bytes > 0
                              ? options.pin_chunk_bytes
                              : Registrations::all().chunk_at(host_.data()).value_or(kChunk);
    regions_.emplace(host_.data(), host_.nbytes(), chunk,
                     Registrar{[](std::byte* begin, int64_t bytes, std::string& text) {
                                   return Registrations::all().pin(begin, bytes, text);
                               },
                               [](std::byte* begin, int64_t bytes) {
                                   Registrations::all().unpin(begin, bytes);
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
    if (!regions_) return;
    std::optional<DeviceScope> scope;
    try {
        scope.emplace(device_);
    } catch (const std::exception&) {
        // The device is lost; what it had registered is gone with it.
    }
    const OutsideCapture outside;
    regions_.reset();
}

}  // namespace hicache::cuda
