// backends/cuda/digest_kernel.h on the stand-in's streams: what each of a warp's threads does is
// the very code of the GPU (digest_words.h), and a loop stands for the warp. See stand_in.h.
#include "backends/cuda/digest_kernel.h"

#include <gtest/gtest.h>

#include "tests/cuda/runtime_errors.h"
#include "tests/cuda/stream_threads.h"

namespace hicache::cuda {
namespace {

using testing_support::queueing_fails;
using testing_support::with_error;

constexpr int kWarp = 32;

// A GPU refuses loads that are not aligned to what they load.
bool aligned(const DigestSegment& segment, const DigestLayer& layer, int64_t page) {
    for (int64_t offset = 0; offset < segment.bytes; offset += layer.unit) {
        if (digest_address(segment, page, offset) % static_cast<uint64_t>(layer.unit) != 0)
            return false;
    }
    return true;
}

}  // namespace

cudaError_t load_digest_kernel() {
    return cudaSuccess;
}

cudaError_t take_digests(const DigestTask& task, int blocks, cudaStream_t stream) {
    if (blocks <= 0 || queueing_fails()) return with_error(cudaErrorInvalidValue);
    stream->queue([task] {
        for (int layer = task.first_layer; layer < task.last_layer; ++layer) {
            const DigestLayer& shape = task.layers[layer];
            const DigestSegment* segments = task.segments + shape.first_segment;
            const int64_t count = task.layers[layer + 1].first_segment - shape.first_segment;
            for (int64_t page = 0; page < task.pages; ++page) {
                const PagePair& pair = task.pairs[page];
                if (!task.sample.has(pair.host, layer)) continue;
                for (int64_t s = 0; s < count; ++s)
                    ASSERT_TRUE(aligned(segments[s], shape, pair.device)) << shape.unit;
                uint64_t sum = 0;
                for (int lane = 0; lane < kWarp; ++lane)
                    sum += lane_share(segments, count, shape, pair.device, lane, kWarp);
                task.found[(layer - task.first_layer) * task.pages + page] =
                    finished_digest(sum, static_cast<uint64_t>(shape.bytes));
            }
        }
    });
    return cudaSuccess;
}

}  // namespace hicache::cuda
