#include "backends/cuda/registrations.h"

#include <algorithm>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/device_allocations.h"

namespace hicache::cuda {
namespace {

bool registered(uint64_t address) {
    cudaPointerAttributes attributes{};
    return accept(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(address))) &&
           attributes.type == cudaMemoryTypeHost;
}

// Whether somebody else has registered all of it, as one: no copy may cross the end of a
// registration. Where the driver does not tell where one ends, some thousand places are looked at.
bool covered(const std::byte* begin, int64_t bytes) {
    const auto start = reinterpret_cast<uint64_t>(begin);
    const uint64_t end = start + static_cast<uint64_t>(bytes);
    if (const auto known = end_of_allocation(start)) return registered(start) && *known >= end;
    const uint64_t step = std::max<uint64_t>(64 << 10, static_cast<uint64_t>(bytes) / 4096);
    for (uint64_t at = start; at < end; at += step) {
        if (!registered(at)) return false;
    }
    return registered(end - 1);
}

}  // namespace

Registrations& Registrations::all() {
    static auto* const all = new Registrations;
    return *all;
}

std::optional<int64_t> Registrations::chunk_at(std::byte* begin) {
    std::lock_guard lock(mutex_);
    const auto chunk = users_.lower_bound({begin, 0});
    if (chunk == users_.end() || chunk->first.first != begin) return std::nullopt;
    return chunk->first.second;
}

PinResult Registrations::pin(std::byte* begin, int64_t bytes, std::string& text) {
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
        bad_state("A part of the host pool's ", bytes, " bytes at ", static_cast<void*>(begin),
                  " is registered with CUDA already, and not all of it: no copy may cross such a "
                  "border. Unregister that part first.");
    }
    text = message(cudaGetErrorString(status), " (", cudaGetErrorName(status), ")");
    return PinResult::kRefused;
}

void Registrations::unpin(std::byte* begin, int64_t bytes) {
    std::lock_guard lock(mutex_);
    const auto ours = users_.find({begin, bytes});
    if (--ours->second > 0) return;
    users_.erase(ours);
    static_cast<void>(accept(cudaHostUnregister(begin)));
}

// Memory that another engine of this process has pinned in other chunks: copies must not cross
// their borders, and they end with that engine.
void Registrations::require_same_chunks(const std::byte* begin, int64_t bytes) const {
    for (const auto& [chunk, users] : users_) {
        if (chunk.first < begin + bytes && begin < chunk.first + chunk.second) {
            bad_state("Another engine has pinned this host pool in chunks of ", chunk.second,
                      " bytes, this one asks for ", bytes,
                      "; give both the same pin_chunk_bytes, or this one none.");
        }
    }
}

}  // namespace hicache::cuda
