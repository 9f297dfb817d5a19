#include "backends/cuda/flag_slots.h"

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

struct FlagSlot::Place {
    uint32_t* words;
    uint64_t device;
    int size;
    uint32_t value = 0;  // of its last user

    // Idle places by size; both live as long as the process, see the header.
    static std::mutex& mutex() {
        static auto* const mutex = new std::mutex;
        return *mutex;
    }
    static std::multimap<int, Place*>& idle() {
        static auto* const idle = new std::multimap<int, Place*>;
        return *idle;
    }

    static Place* take(int words) {
        {
            std::lock_guard lock(mutex());
            const auto found = idle().lower_bound(words);
            if (found != idle().end() && found->first <= 2 * words + 64) {
                Place* const place = found->second;
                idle().erase(found);
                ++place->value;
                return place;
            }
        }
        return make(words);
    }

    // Pins a batch of places at once, so that hardly any copy has to; returns one of them.
    static Place* make(int words) {
        constexpr int kBatch = 32;
        void* memory = nullptr;
        const auto bytes = static_cast<size_t>(words) * kBatch * sizeof(uint32_t);
        require(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
                "Pinning ", bytes, " bytes of flags");
        void* device = nullptr;
        require(cudaHostGetDevicePointer(&device, memory, 0), "Mapping the flags");
        std::memset(memory, 0, bytes);
        auto* const flags = static_cast<uint32_t*>(memory);
        std::lock_guard lock(mutex());
        for (int i = 1; i < kBatch; ++i) {
            const auto shift = static_cast<size_t>(i * words);
            idle().emplace(
                words,
                new Place{flags + shift,
                          reinterpret_cast<uint64_t>(device) + shift * sizeof(uint32_t), words});
        }
        return new Place{flags, reinterpret_cast<uint64_t>(device), words, 1};
    }
};

FlagSlot::FlagSlot(int words) : place_(Place::take(words)), words_(words), value_(place_->value) {}

FlagSlot::~FlagSlot() {
    if (process_.forked()) return;
    raise_all();  // whoever still waits must not wait for the next user
    std::lock_guard lock(Place::mutex());
    Place::idle().emplace(place_->size, place_);
}

uint64_t FlagSlot::address(int word) const {
    return place_->device + static_cast<uint64_t>(word) * sizeof(uint32_t);
}

void FlagSlot::raise_all() {
    if (process_.forked()) return;
    for (int i = 0; i < words_; ++i)
        std::atomic_ref(place_->words[i]).store(value_, std::memory_order_release);
}

}  // namespace hicache::cuda
