#include "backends/cpu/stream_copy.h"

#include <cstdint>
#include <cstring>

// The thread sanitizer does not see these stores: it gets memcpy.
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
#define HICACHE_STREAMS 1
#include <emmintrin.h>
#else
#define HICACHE_STREAMS 0
#endif

namespace hicache {

#if HICACHE_STREAMS

namespace {

constexpr size_t kLine = 64;
constexpr size_t kStreams = 4;
constexpr size_t kAhead = 512;  // bytes

// Requires: `to` lies on a cache line's border.
inline void stream_line(std::byte* to, const std::byte* from) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i a = _mm_loadu_si128(source);
    const __m128i b = _mm_loadu_si128(source + 1);
    const __m128i c = _mm_loadu_si128(source + 2);
    const __m128i d = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, a);
    _mm_stream_si128(target + 1, b);
    _mm_stream_si128(target + 2, c);
    _mm_stream_si128(target + 3, d);
}

}  // namespace

void stream_copy(std::byte* to, const std::byte* from, size_t n) {
    const size_t head = -reinterpret_cast<uintptr_t>(to) & (kLine - 1);
    if (n < kSmallestStreamedBlock + head) {
        std::memcpy(to, from, n);
        return;
    }
    std::memcpy(to, from, head);
    to += head;
    from += head;
    n -= head;
    const size_t part = n / kStreams / kLine * kLine;
    for (size_t at = 0; at < part; at += kLine) {
        for (size_t stream = 0; stream < kStreams; ++stream) {
            const std::byte* line = from + stream * part + at;
            _mm_prefetch(reinterpret_cast<const char*>(line) + kAhead, _MM_HINT_T0);
            stream_line(to + stream * part + at, line);
        }
    }
    std::memcpy(to + kStreams * part, from + kStreams * part, n - kStreams * part);
}

void stream_fence() {
    _mm_sfence();
}

#else

void stream_copy(std::byte* to, const std::byte* from, size_t n) {
    std::memcpy(to, from, n);
}

void stream_fence() {}

#endif

}  // namespace hicache
