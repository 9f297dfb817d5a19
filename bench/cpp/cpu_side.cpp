#include <chrono>
#include <cstring>
#include <vector>

#include "core/host_memory.h"
#include "device_side.h"
#include "thread_team.h"

namespace hicache::bench {
namespace {

constexpr int64_t kCut = 4096;  // threads' parts of a copy start on borders of this

class CpuContiguousCopy : public ContiguousCopy {
  public:
    CpuContiguousCopy(int64_t nbytes, int workers)
        : host_(nbytes), device_(nbytes), team_(workers) {}

    double seconds(Direction direction, int64_t nbytes) override {
        const bool load = direction == Direction::kHostToDevice;
        std::byte* to = load ? device_.data() : host_.data();
        const std::byte* from = load ? host_.data() : device_.data();
        const auto started = std::chrono::steady_clock::now();
        team_.run([&](int thread) {
            const int64_t begin = cut(nbytes, thread);
            const auto count = static_cast<size_t>(cut(nbytes, thread + 1) - begin);
            std::memcpy(to + begin, from + begin, count);
        });
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
    }

  private:
    [[nodiscard]] int64_t cut(int64_t nbytes, int thread) const {
        return thread == team_.size() ? nbytes : nbytes / team_.size() * thread / kCut * kCut;
    }

    const HostMemory host_;
    const HostMemory device_;
    ThreadTeam team_;
};

class CpuSide : public DeviceSide {
  public:
    explicit CpuSide(int workers) : workers_(workers) {}

    std::string hardware() const override { return {}; }

    uint64_t allocate(int64_t nbytes) override {
        memory_.emplace_back(nbytes);
        return reinterpret_cast<uint64_t>(memory_.back().data());
    }

    std::shared_ptr<std::byte[]> staging(int64_t nbytes) override {
        return std::make_shared<std::byte[]>(static_cast<size_t>(nbytes));
    }

    void write(uint64_t device, const std::byte* host, int64_t nbytes) override {
        std::memcpy(reinterpret_cast<std::byte*>(device), host, static_cast<size_t>(nbytes));
    }

    void read(std::byte* host, uint64_t device, int64_t nbytes) override {
        std::memcpy(host, reinterpret_cast<const std::byte*>(device), static_cast<size_t>(nbytes));
    }

    std::unique_ptr<ContiguousCopy> contiguous_copy(int64_t nbytes) override {
        return std::make_unique<CpuContiguousCopy>(nbytes, workers_);
    }

  private:
    const int workers_;
    std::vector<HostMemory> memory_;
};

}  // namespace

std::unique_ptr<DeviceSide> create_cpu_side(int workers) {
    return std::make_unique<CpuSide>(workers);
}

}  // namespace hicache::bench
