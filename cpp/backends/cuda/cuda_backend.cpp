#include "backends/cuda/cuda_backend.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/cuda_lane.h"
#include "backends/cuda/direct_way.h"
#include "backends/cuda/kernel_way.h"
#include "backends/cuda/pinned_pool.h"

namespace hicache {
namespace cuda {
namespace {

constexpr int kDefaultBlocks = 4;

// Copies between one device and the host. See cuda_lane.h for how.
class CudaBackend : public Backend {
  public:
    CudaBackend(int device, BackendSetup setup)
        : pool_(device, setup.host, setup.options), shared_(device, setup) {
        const DeviceScope scope(device);
        shared_.kernel_possible = pool_.device_address() != 0;
        for (const Direction direction : kDirections) {
            lanes_[index(direction)] =
                std::make_unique<CudaLane>(shared_, direction, make_ways(setup));
        }
        try {
            for (auto& each : lanes_)
                each->start();
        } catch (...) {
            CudaBackend::close(0);
            throw;
        }
        if (setup.options.way == Way::kKernel && !shared_.kernel_possible) {
            warning_ = "io_backend 'kernel' needs a pinned host pool; copies go by copy engine. ";
        }
        warning_ += pool_.warning();
    }
    ~CudaBackend() override {
        CudaBackend::close(0);
        const OutsideCapture outside;
        for (auto& each : lanes_)
            each.reset();
    }

    FencePtr record(uintptr_t stream) override {
        const DeviceScope scope(shared_.device);
        require_not_capturing(stream);
        auto fence =
            std::make_shared<EventFence>(shared_.device, shared_.events->record(stream_of(stream)));
        return fence->done() ? nullptr : fence;
    }

    void submit(std::shared_ptr<CopyJob> job) override {
        const DeviceScope scope(shared_.device);
        lane(job->order().direction).submit(std::move(job));
    }

    void hold(Direction direction) override { lane(direction).hold(); }
    void release(Direction direction) override { lane(direction).release(); }

    void close(double fence_seconds) override {
        {
            std::lock_guard lock(shared_.mutex);
            if (!shared_.closing) {
                using Clock = std::chrono::steady_clock;
                const std::chrono::duration<double> grace(std::clamp(fence_seconds, 0.0, 1e9));
                shared_.fence_limit =
                    Clock::now() + std::chrono::duration_cast<Clock::duration>(grace);
                shared_.closing = true;
            }
        }
        shared_.changed.notify_all();
        for (auto& each : lanes_)
            each->join();
        pool_.unpin();
    }

    void check() const override {
        std::lock_guard lock(shared_.mutex);
        for (const Direction direction : kDirections) {
            const int d = index(direction);
            lanes_[d]->check(shared_.setup.counters[d]->totals().in_flight());
        }
    }

    [[nodiscard]] std::string warning() const override { return warning_; }

  private:
    [[nodiscard]] CudaLane& lane(Direction direction) { return *lanes_[index(direction)]; }

    [[nodiscard]] CudaLane::Ways make_ways(const BackendSetup& setup) const {
        CudaLane::Ways ways;
        ways[static_cast<size_t>(Way::kDirect)] = std::make_unique<DirectWay>(
            setup.geometry, setup.host.data(), pool_.cut_bytes(), pool_.pinned(), shared_.events);
        if (shared_.kernel_possible) {
            const int asked = setup.options.kernel_blocks;
            ways[static_cast<size_t>(Way::kKernel)] =
                std::make_unique<KernelWay>(*setup.geometry, pool_.device_address(),
                                            asked > 0 ? asked : kDefaultBlocks, shared_.events);
        }
        return ways;
    }

    PinnedPool pool_;
    mutable LaneShared shared_;
    std::array<std::unique_ptr<CudaLane>, 2> lanes_;
    std::string warning_;
};

}  // namespace
}  // namespace cuda

const bool kCudaBackendBuilt = true;

int cuda_device_index(const std::string& device) {
    int count = 0;
    cuda::require(cudaGetDeviceCount(&count), "Device '", device,
                  "' needs a CUDA GPU and its driver; looking for one");
    if (device == "cuda") {
        int current = 0;
        cuda::require(cudaGetDevice(&current), "cudaGetDevice");
        return current;
    }
    const std::string digits = device.starts_with("cuda:") ? device.substr(5) : "";
    if (digits.empty() || digits.size() > 4 ||
        digits.find_first_not_of("0123456789") != std::string::npos) {
        bad_argument("Device '", device, "' is unknown; use 'cuda' or 'cuda:<number>'.");
    }
    const int index = std::atoi(digits.c_str());
    if (index >= count) bad_state("There is no device '", device, "': ", count, " GPUs are here.");
    return index;
}

int cuda_device_of_address(uint64_t address) {
    cudaPointerAttributes attributes{};
    cuda::require(cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(address)),
                  "Asking whose memory lies at ", address);
    if (attributes.type != cudaMemoryTypeDevice && attributes.type != cudaMemoryTypeManaged) {
        bad_state("The memory at ", address, " is no device memory.");
    }
    return attributes.device;
}

std::unique_ptr<Backend> create_cuda_backend(const std::string& device, BackendSetup setup) {
    return std::make_unique<cuda::CudaBackend>(cuda_device_index(device), std::move(setup));
}

}  // namespace hicache
