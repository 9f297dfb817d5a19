#include <algorithm>

#include "backends/cuda/digest_kernel.h"

namespace hicache::cuda {
namespace {

constexpr int kThreads = 512;
constexpr int kWarp = 32;
constexpr int kWarpsOfBlock = kThreads / kWarp;

// A warp takes one page of one layer after the other: its digest needs no other warp.
__global__ void __launch_bounds__(kThreads) take_digests_kernel(DigestTask task) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int64_t warps = static_cast<int64_t>(gridDim.x) * kWarpsOfBlock;
    const int64_t entries = task.pages * (task.last_layer - task.first_layer);
    // Neighbours go to different blocks, so that few pages keep all of them busy.
    int64_t entry = static_cast<int64_t>(threadIdx.x) / kWarp * gridDim.x + blockIdx.x;
    for (; entry < entries; entry += warps) {
        const int layer = task.first_layer + static_cast<int>(entry / task.pages);
        const PagePair pair = task.pairs[entry % task.pages];
        if (!task.sample.has(pair.host, layer)) continue;  // the same for all lanes
        const DigestLayer shape = task.layers[layer];
        const int64_t end = task.layers[layer + 1].first_segment;
        uint64_t sum = lane_share(task.segments + shape.first_segment, end - shape.first_segment,
                                  shape, pair.device, lane, kWarp);
        for (int step = kWarp / 2; step > 0; step /= 2)
            sum += __shfl_down_sync(0xffffffffu, sum, step);
        if (lane == 0) task.found[entry] = finished_digest(sum, static_cast<uint64_t>(shape.bytes));
    }
}

}  // namespace

cudaError_t load_digest_kernel() {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, take_digests_kernel);
}

cudaError_t take_digests(const DigestTask& task, int blocks, cudaStream_t stream) {
    const int64_t entries = task.pages * (task.last_layer - task.first_layer);
    if (entries == 0) return cudaSuccess;
    const auto grid = static_cast<unsigned>(std::min<int64_t>(blocks, entries));
    take_digests_kernel<<<grid, kThreads, 0, stream>>>(task);
    return cudaGetLastError();
}

}  // namespace hicache::cuda
