// What one thread of the digest kernel does: the words of a page of one layer that are its own.
// Compiled for the GPU, and for the host where tests stand in for it.
#pragma once

#include <cstdint>

#include "core/page_digest.h"
#include "transfer/digest_sample.h"

namespace hicache::cuda {

// Bytes of a page of one layer that lie in one device buffer, as rows.
struct DigestSegment {
    uint64_t device;  // row 0 of page 0
    int64_t device_stride;
    int64_t row_stride;
    int64_t row_bytes;  // those of the segment where rows follow each other without a gap
    int64_t start;      // bytes of the layer before it
    int64_t bytes;
};

struct DigestLayer {
    int64_t first_segment;  // of the next layer: the end
    int64_t bytes;
    int64_t unit;  // 16, 8, 4, 2 or 1: all addresses, strides and starts are a multiple of it
};

// 16 bytes that a thread reads at a time.
struct alignas(16) DigestPair {
    uint64_t low;
    uint64_t high;
};

inline constexpr int kDigestLoads = 4;  // under way, of a thread

// offset: within the segment.
HICACHE_BOTH_SIDES inline uint64_t digest_address(const DigestSegment& segment, int64_t page,
                                                  int64_t offset) {
    int64_t place = page * segment.device_stride + offset;
    if (segment.row_bytes != segment.bytes) {
        const auto row = static_cast<uint32_t>(offset) / static_cast<uint32_t>(segment.row_bytes);
        place += row * (segment.row_stride - segment.row_bytes);
    }
    return segment.device + static_cast<uint64_t>(place);
}

// The share of thread `lane` of `lanes` in the words of a segment whose words are whole: it takes
// kWords at a time, kDigestLoads times without waiting for the bytes.
template <typename Load, int kWords>
HICACHE_BOTH_SIDES inline uint64_t segment_share(const DigestSegment& segment, int64_t page,
                                                 int lane, int lanes) {
    constexpr int64_t kBytes = kWords * kDigestWord;
    const int64_t loads = segment.bytes / kBytes;
    uint64_t sum = 0;
    for (int64_t first = lane; first < loads; first += int64_t{lanes} * kDigestLoads) {
        Load held[kDigestLoads];
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int i = 0; i < kDigestLoads; ++i) {
            const int64_t load = first + int64_t{i} * lanes;
            if (load < loads)
                held[i] =
                    *reinterpret_cast<const Load*>(digest_address(segment, page, load * kBytes));
        }
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
        for (int i = 0; i < kDigestLoads; ++i) {
            const int64_t load = first + int64_t{i} * lanes;
            if (load >= loads) continue;
            const auto word = static_cast<uint64_t>(segment.start / kDigestWord + load * kWords);
            const uint64_t step = (word + 1) * kDigestStep;
            if constexpr (kWords == 2) {
                sum += digest_share(held[i].low, step);
                sum += digest_share(held[i].high, step + kDigestStep);
            } else {
                sum += digest_share(held[i], step);
            }
        }
    }
    return sum;
}

// The same for words that begin in one row or segment and end in another one: put together from
// pieces of a unit.
template <typename Unit>
HICACHE_BOTH_SIDES inline uint64_t pieced_share(const DigestSegment* segments,
                                                const DigestLayer& layer, int64_t page, int lane,
                                                int lanes) {
    constexpr int64_t kUnit = sizeof(Unit);
    uint64_t sum = 0;
    for (int64_t word = lane; word * kDigestWord < layer.bytes; word += lanes) {
        uint64_t value = 0;
        const DigestSegment* segment = segments;
        for (int64_t i = 0; i < kDigestWord; i += kUnit) {
            const int64_t at = word * kDigestWord + i;
            if (at >= layer.bytes) break;
            while (at >= segment->start + segment->bytes)
                ++segment;
            const auto* unit =
                reinterpret_cast<const Unit*>(digest_address(*segment, page, at - segment->start));
            value |= static_cast<uint64_t>(*unit) << (8 * i);
        }
        sum += digest_share(value, (static_cast<uint64_t>(word) + 1) * kDigestStep);
    }
    return sum;
}

// The share of thread `lane` of `lanes` in the sum of one page of a layer. segments: the layer's.
HICACHE_BOTH_SIDES inline uint64_t lane_share(const DigestSegment* segments, int64_t num_segments,
                                              const DigestLayer& layer, int64_t page, int lane,
                                              int lanes) {
    switch (layer.unit) {
        case 4:
            return pieced_share<uint32_t>(segments, layer, page, lane, lanes);
        case 2:
            return pieced_share<uint16_t>(segments, layer, page, lane, lanes);
        case 1:
            return pieced_share<uint8_t>(segments, layer, page, lane, lanes);
        default:
            break;
    }
    uint64_t sum = 0;
    for (int64_t s = 0; s < num_segments; ++s) {
        sum += layer.unit == 16 ? segment_share<DigestPair, 2>(segments[s], page, lane, lanes)
                                : segment_share<uint64_t, 1>(segments[s], page, lane, lanes);
    }
    return sum;
}

}  // namespace hicache::cuda
