#include "backends/cuda/pinned_pool.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/registrations.h"

namespace hicache::cuda {
namespace {

// Where the GPU sees host memory elsewhere only what was pinned as one has one address there.
constexpr int64_t kChunkWithAlias = int64_t{64} << 30;

Registrar registrar(int device) {
    return {[device](std::byte* begin, int64_t bytes, std::string& text) {
                const DeviceScope scope(device);
                return Registrations::all().pin(begin, bytes, text);
            },
            [device](std::byte* begin, int64_t bytes) {
                std::optional<DeviceScope> scope;
                try {
                    scope.emplace(device);
                } catch (const std::exception&) {
                    // The device is lost; what it had registered is gone with it.
                }
                const OutsideCapture outside;
                Registrations::all().unpin(begin, bytes);
            }};
}

}  // namespace

PinnedPool::PinnedPool(int device, HostMemory host, const CopyOptions& options)
    : device_(device), host_(std::move(host)) {
    if (options.pinning == Pinning::kNever || host_.nbytes() == 0) return;
    const DeviceScope scope(device_);
    int same_address = 0;
    require(cudaDeviceGetAttribute(&same_address, cudaDevAttrCanUseHostPointerForRegisteredMem,
                                   device_),
            "Asking how the GPU sees host memory");
    same_address_ = same_address != 0;
    const int64_t chunk = choose_chunk(options);
    chunks_ =
        std::make_shared<PinnedChunks>(host_.data(), host_.nbytes(), chunk, registrar(device_),
                                       options.pinning == Pinning::kAlways);
    host_.attach(chunks_);
    if (const auto refusal = chunks_->refusal()) {
        warning_ = message(*refusal, "; ", chunks_->pageable_bytes(), " of ", host_.nbytes(),
                           " bytes of the host pool stays pageable so far, and copies of those "
                           "pages are several times slower.");
    }
    if (chunks_->pageable_bytes() == host_.nbytes()) {
        unpin();
        return;
    }
    cut_bytes_ = chunk < host_.nbytes() ? chunk : 0;
    look_from_device();
}

int64_t PinnedPool::choose_chunk(const CopyOptions& options) const {
    if (options.pin_chunk_bytes > 0) return options.pin_chunk_bytes;
    return Registrations::all()
        .chunk_at(host_.data())
        .value_or(same_address_ ? host_.step_bytes() : kChunkWithAlias);
}

void PinnedPool::look_from_device() {
    void* address = nullptr;
    if (same_address_) {
        device_address_ = reinterpret_cast<uint64_t>(host_.data());
    } else if (cut_bytes_ == 0 && accept(cudaHostGetDevicePointer(&address, host_.data(), 0))) {
        device_address_ = reinterpret_cast<uint64_t>(address);
    }
}

bool PinnedPool::pinned(const CopyGeometry& geometry, const CopyOrder& order) const {
    if (!chunks_) return false;
    if (chunks_->pinned_bytes() == host_.nbytes()) return true;
    const auto of_entry = [&](const HostEntry& entry) {
        return std::ranges::all_of(order.plan.runs(), [&](const PageRun& run) {
            return chunks_->pinned(entry.base + run.host_page * entry.stride,
                                   run.count * entry.stride);
        });
    };
    // Whole records lie side by side: their first layer's entries stand for all.
    if (geometry.host_records()) {
        const HostEntry& first = geometry.entry(0);
        return of_entry({0, first.stride, first.stride, 0});
    }
    return std::ranges::all_of(order.layers,
                               [&](int layer) { return of_entry(geometry.entry(layer)); });
}

void PinnedPool::unpin() {
    if (!chunks_) return;
    host_.detach(chunks_);
    chunks_->unpin_all();
    chunks_.reset();
}

}  // namespace hicache::cuda
