#include "backends/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "backends/cuda/cuda_call.h"
#include "backends/cuda/cuda_lane.h"
#include "backends/cuda/device_allocations.h"
#include "backends/cuda/direct_way.h"
#include "backends/cuda/kernel_way.h"
#include "backends/cuda/pinned_pool.h"
#include "backends/cuda/staged_way.h"

namespace hicache {
namespace cuda {
namespace {

constexpr int kDefaultBlocks = 4;
// Two bays: one is filled while the other one is emptied, in less than half of that time. The link
// rests between two bays, so they are long.
constexpr int64_t kStagingBytes = int64_t{32} << 20;
constexpr int kBays = 2;
constexpr int64_t kBayAlignment = 256;

// The same with a geometry whose records are copied as one only where the driver allows it.
BackendSetup fit_records(int device, BackendSetup setup) {
    const DeviceScope scope(device);
    if (!setup.geometry->records_within(one_allocation)) {
        setup.geometry = std::make_shared<const CopyGeometry>(setup.geometry->without_records());
    }
    return setup;
}

// Copies between one device and the host. See cuda_lane.h for how.
class CudaBackend : public Backend {
  public:
    CudaBackend(int device, BackendSetup setup) : shared_(device, fit_records(device, setup)) {
        const DeviceScope scope(device);
        require(load_kernels(), "Loading the kernels");
        for (const Direction direction : kDirections)
            lanes_[index(direction)] = make_lane(direction);
        try {
            for (auto& each : lanes_)
                each->start();
        } catch (...) {
            CudaBackend::close(0);
            throw;
        }
        const auto& asked = setup.options.way;
        const PinnedPool& pool = shared_.pool;
        if (asked && *asked != Way::kDirect && !pool.pinned()) {
            warning_ += message("io_backend '", name(*asked),
                                "' needs a pinned host pool; copies go by copy engine. ");
        } else if (asked != Way::kDirect && pool.pinned() && pool.device_address() == 0) {
            warning_ +=
                "This GPU does not see a host pool that was pinned in several chunks at one "
                "address; copies go straight by copy engine. ";
        }
        warning_ += pool.warning();
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
        const cudaError_t status = cudaStreamQuery(stream_of(stream));
        if (status == cudaSuccess) return nullptr;
        static_cast<void>(cudaGetLastError());
        if (status != cudaErrorNotReady) require(status, "Asking for the work of stream ", stream);
        return std::make_shared<EventFence>(shared_.device,
                                            shared_.events->record(stream_of(stream)));
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
        for (std::condition_variable& each : shared_.may_queue)
            each.notify_all();
        for (auto& each : lanes_)
            each->join();
        shared_.pool.unpin();
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

    // The ring of one direction; nullptr, with a warning, if the device has no room.
    [[nodiscard]] std::unique_ptr<StagingRing> make_ring() {
        const BackendSetup& setup = shared_.setup;
        const int64_t asked = setup.options.staging_bytes;
        const int64_t total = asked > 0 ? asked : kStagingBytes;
        const int64_t bay = std::max({total / kBays, setup.layer_bytes, kBayAlignment});
        const int64_t aligned = (bay + kBayAlignment - 1) / kBayAlignment * kBayAlignment;
        try {
            return std::make_unique<StagingRing>(aligned, kBays);
        } catch (const std::runtime_error& error) {
            warning_ = message(error.what(), " Copies go on without a staging ring, slower. ");
            return nullptr;
        }
    }

    [[nodiscard]] std::unique_ptr<CudaLane> make_lane(Direction direction) {
        const BackendSetup& setup = shared_.setup;
        const int asked = setup.options.kernel_blocks;
        const int blocks = asked > 0 ? asked : kDefaultBlocks;
        const PinnedPool& pool = shared_.pool;
        const CopyEngine engine(setup.host.data(), pool.cut_bytes(), true);
        const CopyEngine singles(setup.host.data(), pool.cut_bytes(), false);
        CudaLane::Ways ways;
        WayLimits limits{setup.options.way, 0, 0};
        ways[static_cast<size_t>(Way::kDirect)] =
            std::make_unique<DirectWay>(setup.geometry, engine, shared_.events);
        if (pool.device_address() != 0) {
            limits.kernel_blocks = blocks;
            ways[static_cast<size_t>(Way::kKernel)] = std::make_unique<KernelWay>(
                setup.geometry, pool.device_address(), blocks, shared_.events);
            if (auto ring = make_ring()) {
                limits.bay_bytes = ring->bay_bytes();
                ways[static_cast<size_t>(Way::kStaged)] =
                    std::make_unique<StagedWay>(setup.geometry, engine, std::move(ring), blocks,
                                                priority_of(direction), shared_.events);
            }
        }
        return std::make_unique<CudaLane>(
            shared_, direction, std::move(ways),
            std::make_unique<DirectWay>(setup.geometry, singles, shared_.events), limits);
    }

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

std::string cuda_device_bus_id(const std::string& device) {
    std::array<char, 32> id{};
    cuda::require(cudaDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()) - 1,
                                        cuda_device_index(device)),
                  "Asking for the bus id of '", device, "'");
    return id.data();
}

std::string cuda_device_identity(const std::string& device) {
    const cuda::OutsideCapture outside;
    cudaDeviceProp properties{};
    cuda::require(cudaGetDeviceProperties(&properties, cuda_device_index(device)), "Asking what '",
                  device, "' is");
    int driver = 0;
    cuda::require(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
    std::string id;
    for (const char byte : properties.uuid.bytes) {
        constexpr char kDigits[] = "0123456789abcdef";
        const auto value = static_cast<unsigned char>(byte);
        id += {kDigits[value / 16], kDigits[value % 16]};
    }
    return message(properties.name, " ", id, " bus ", properties.pciBusID, " CUDA ", driver,
                   " runtime ", CUDART_VERSION);
}

std::unique_ptr<Backend> create_cuda_backend(const std::string& device, BackendSetup setup) {
    return std::make_unique<cuda::CudaBackend>(cuda_device_index(device), std::move(setup));
}

}  // namespace hicache
