#include <cuda_runtime_api.h>

#include <chrono>
#include <vector>

#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_call.h"
#include "device_side.h"

namespace hicache::bench {
namespace {

using cuda::require;

void* device_memory(int64_t nbytes) {
    void* memory = nullptr;
    require(cudaMalloc(&memory, static_cast<size_t>(nbytes)), "cudaMalloc of ", nbytes, " bytes");
    return memory;
}

std::shared_ptr<std::byte[]> pinned_memory(int64_t nbytes) {
    void* memory = nullptr;
    require(cudaMallocHost(&memory, static_cast<size_t>(nbytes)), "Pinning ", nbytes, " bytes");
    return {static_cast<std::byte*>(memory),
            [](std::byte* bytes) { static_cast<void>(cuda::accept(cudaFreeHost(bytes))); }};
}

struct FreeDeviceMemory {
    void operator()(void* memory) const { static_cast<void>(cuda::accept(cudaFree(memory))); }
};
using DeviceMemory = std::unique_ptr<void, FreeDeviceMemory>;

class CudaContiguousCopy : public ContiguousCopy {
  public:
    explicit CudaContiguousCopy(int64_t nbytes)
        : host_(pinned_memory(nbytes)), device_(device_memory(nbytes)) {
        require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "Creating a stream");
    }
    ~CudaContiguousCopy() override { static_cast<void>(cuda::accept(cudaStreamDestroy(stream_))); }

    double seconds(Direction direction, int64_t nbytes) override {
        const bool load = direction == Direction::kHostToDevice;
        void* to = load ? device_.get() : host_.get();
        const void* from = load ? host_.get() : device_.get();
        const auto started = std::chrono::steady_clock::now();
        require(cudaMemcpyAsync(to, from, static_cast<size_t>(nbytes),
                                load ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost, stream_),
                "The contiguous copy");
        require(cudaStreamSynchronize(stream_), "The contiguous copy");
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    }

  private:
    const std::shared_ptr<std::byte[]> host_;
    const DeviceMemory device_;
    cudaStream_t stream_ = nullptr;
};

class CudaSide : public DeviceSide {
  public:
    CudaSide() : device_(cuda_device_index("cuda")) {}

    std::string hardware() const override {
        cudaDeviceProp properties{};
        require(cudaGetDeviceProperties(&properties, device_), "Asking for the device's name");
        return properties.name;
    }

    uint64_t allocate(int64_t nbytes) override {
        memory_.emplace_back(device_memory(nbytes));
        return reinterpret_cast<uint64_t>(memory_.back().get());
    }

    std::shared_ptr<std::byte[]> staging(int64_t nbytes) override { return pinned_memory(nbytes); }

    void write(uint64_t device, const std::byte* host, int64_t nbytes) override {
        copy(reinterpret_cast<void*>(device), host, nbytes, cudaMemcpyHostToDevice);
    }

    void read(std::byte* host, uint64_t device, int64_t nbytes) override {
        copy(host, reinterpret_cast<const void*>(device), nbytes, cudaMemcpyDeviceToHost);
    }

    std::unique_ptr<ContiguousCopy> contiguous_copy(int64_t nbytes) override {
        return std::make_unique<CudaContiguousCopy>(nbytes);
    }
    std::shared_ptr<const LinkCurve> link_curve() override {
        if (!curve_) curve_ = std::make_shared<const LinkCurve>(measure_cuda_link("cuda"));
        return curve_;
    }

  private:
    std::shared_ptr<const LinkCurve> curve_;
    void copy(void* to, const void* from, int64_t nbytes, cudaMemcpyKind kind) const {
        const cuda::DeviceScope scope(device_);  // threads start on device 0
        require(cudaMemcpyAsync(to, from, static_cast<size_t>(nbytes), kind, cudaStreamPerThread),
                "A copy of ", nbytes, " bytes");
        require(cudaStreamSynchronize(cudaStreamPerThread), "A copy of ", nbytes, " bytes");
    }

    const int device_;
    std::vector<DeviceMemory> memory_;
};

}  // namespace

std::unique_ptr<DeviceSide> create_cuda_side() {
    return std::make_unique<CudaSide>();
}

}  // namespace hicache::bench
