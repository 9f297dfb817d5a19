// Measures the costs of link_curve.h on the device at hand, with the code that copies use.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <random>
#include <vector>

#include "backends/cuda/copy_engine.h"
#include "backends/cuda/cuda_backend.h"
#include "backends/cuda/cuda_call.h"
#include "backends/cuda/device_memory.h"
#include "backends/cuda/event_pool.h"
#include "backends/cuda/page_kernel.h"
#include "transfer/link_curve.h"

namespace hicache {
namespace cuda {
namespace {

constexpr int64_t kScratch = int64_t{64} << 20;
constexpr int64_t kBatch = int64_t{8} << 20;  // bytes
constexpr int64_t kPage = int64_t{32} << 10;  // of the kernel's pages
constexpr int64_t kRows = 64;                 // of a rectangle
constexpr int kBlocks = 4;
constexpr int kTimes = 3;  // the median of so many, after one to warm up

class TimedStream {
  public:
    TimedStream() {
        require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "Creating a stream");
        require(cudaEventCreate(&begin_), "cudaEventCreate");
        require(cudaEventCreate(&end_), "cudaEventCreate");
    }
    ~TimedStream() {
        static_cast<void>(accept(cudaStreamSynchronize(stream_)));
        static_cast<void>(accept(cudaEventDestroy(begin_)));
        static_cast<void>(accept(cudaEventDestroy(end_)));
        static_cast<void>(accept(cudaStreamDestroy(stream_)));
    }
    TimedStream(const TimedStream&) = delete;
    TimedStream& operator=(const TimedStream&) = delete;

    // Median seconds of parts 1 to parts - 1 that `queue` queues on the stream. They are queued
    // while part 0 runs, as in a long copy.
    double seconds(int64_t parts, const std::function<void(int64_t, cudaStream_t)>& queue) {
        std::vector<float> taken;
        for (int i = 0; i <= kTimes; ++i) {
            queue(0, stream_);
            require(cudaEventRecord(begin_, stream_), "cudaEventRecord");
            for (int64_t part = 1; part < parts; ++part)
                queue(part, stream_);
            require(cudaEventRecord(end_, stream_), "cudaEventRecord");
            require(cudaEventSynchronize(end_), "Measuring the link");
            float milliseconds = 0;
            require(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
            if (i > 0) taken.push_back(milliseconds);
        }
        std::ranges::sort(taken);
        return std::max(1e-3 * static_cast<double>(taken[kTimes / 2]), 1e-9);
    }

    [[nodiscard]] cudaStream_t get() const { return stream_; }

  private:
    cudaStream_t stream_ = nullptr;
    cudaEvent_t begin_ = nullptr;
    cudaEvent_t end_ = nullptr;
};

class LinkProbe {
  public:
    explicit LinkProbe(int device)
        : events_(std::make_shared<EventPool>(device)),
          host_(kScratch),
          device_(static_cast<size_t>(kScratch)),
          engine_(static_cast<std::byte*>(host_.get()), 0, true) {
        require(load_kernels(), "Loading the kernels");
    }

    LinkCosts measure(Direction direction) {
        return {pieces(direction), rectangles(direction), kernels(direction)};
    }

  private:
    // 0, 1, ... count - 1 in an order that no prefetcher guesses, always the same.
    static std::vector<int64_t> shuffled(int64_t count) {
        std::vector<int64_t> order(static_cast<size_t>(count));
        std::iota(order.begin(), order.end(), 0);
        std::ranges::shuffle(order, std::mt19937(1));
        return order;
    }

    // Noise must not make a curve fall: the smaller one, measured slower, was disturbed.
    static void add(std::vector<CostPoint>& points, int64_t bytes, double seconds) {
        for (CostPoint& smaller : points)
            smaller.seconds = std::min(smaller.seconds, seconds);
        points.push_back({bytes, seconds});
    }

    [[nodiscard]] uint64_t device_address() const {
        return reinterpret_cast<uint64_t>(device_.get());
    }

    // Scattered in host memory, side by side on the device, in batches.
    CostCurve pieces(Direction direction) {
        std::vector<CostPoint> points;
        for (const int64_t bytes : {int64_t{8} << 10, int64_t{32} << 10, int64_t{48} << 10,
                                    int64_t{128} << 10, int64_t{512} << 10, int64_t{2} << 20}) {
            const int64_t batch = kBatch / bytes;
            const std::vector<int64_t> order = shuffled(kScratch / kBatch * batch);
            std::vector<std::vector<Block>> batches;
            for (int64_t i = 0; i < std::ssize(order); ++i) {
                if (i % batch == 0) batches.emplace_back();
                batches.back().push_back({order[static_cast<size_t>(i)] * bytes,
                                          device_address() + static_cast<uint64_t>(i * bytes),
                                          bytes, 1, 0, 0});
            }
            add(points, bytes, each(direction, batches));
        }
        return CostCurve(points);
    }

    // A row is what a layer holds of a page, and lies far from the next one on the device. Lengths
    // that are no power of two take longer, so those of real formats are measured.
    CostCurve rectangles(Direction direction) {
        constexpr int64_t kDevicePitch = kScratch / kRows;
        std::vector<CostPoint> points;
        for (const int64_t width : {1'056, 8'448, 41'984}) {
            const int64_t bytes = kRows * width;
            const int64_t host_pitch = 2 * width;
            const int64_t count = kScratch / (host_pitch * kRows) / 2 * 2;
            std::vector<std::vector<Block>> batches(2);
            for (const int64_t i : shuffled(count)) {
                const bool first = std::ssize(batches[0]) < count / 2;
                batches[first ? 0 : 1].push_back(
                    {i * host_pitch * kRows, device_address() + static_cast<uint64_t>(i * width),
                     width, kRows, host_pitch, kDevicePitch});
            }
            add(points, bytes, each(direction, batches));
        }
        return CostCurve(points);
    }

    // Seconds of one of the blocks. Requires: two batches or more, all equally long.
    double each(Direction direction, const std::vector<std::vector<Block>>& batches) {
        QueueLimit limit(events_, stream_.get());
        const double all =
            stream_.seconds(std::ssize(batches), [&](int64_t i, cudaStream_t stream) {
                engine_.queue(batches[static_cast<size_t>(i)], direction, stream, limit);
            });
        return all / static_cast<double>((batches.size() - 1) * batches[0].size());
    }

    CostCurve kernels(Direction direction) {
        void* host = nullptr;
        require(cudaHostGetDevicePointer(&host, host_.get(), 0), "Mapping pinned memory");
        constexpr int64_t kUnit = 16;
        const DeviceArray<KernelSegment> segment(
            {{reinterpret_cast<uint64_t>(host), kPage, device_address(), kPage, 0, kPage / kUnit,
              kPage / kUnit, kUnit}});
        std::vector<PagePair> pairs;
        for (const int64_t page : shuffled(kScratch / kPage))
            pairs.push_back({page, static_cast<int64_t>(pairs.size())});
        const DeviceArray<PagePair> table(pairs);
        std::vector<CostPoint> points;
        for (const int64_t bytes : {int64_t{256} << 10, int64_t{2} << 20, int64_t{16} << 20}) {
            const int64_t launches = kScratch / bytes;
            const double all = stream_.seconds(launches, [&](int64_t i, cudaStream_t stream) {
                require(move_segments(segment.get(), 1, table.get() + i * (bytes / kPage),
                                      bytes / kPage, direction == Direction::kHostToDevice, kBlocks,
                                      stream),
                        "Launching the kernel");
            });
            add(points, bytes, all / static_cast<double>(launches - 1));
        }
        return CostCurve(points);
    }

    const std::shared_ptr<EventPool> events_;
    const PinnedMemory host_;
    const DeviceMemory device_;
    const CopyEngine engine_;
    TimedStream stream_;
};

}  // namespace
}  // namespace cuda

LinkCurve measure_cuda_link(const std::string& device) {
    const int index = cuda_device_index(device);
    const cuda::DeviceScope scope(index);
    cuda::LinkProbe probe(index);
    return {{probe.measure(Direction::kHostToDevice), probe.measure(Direction::kDeviceToHost)}};
}

}  // namespace hicache
