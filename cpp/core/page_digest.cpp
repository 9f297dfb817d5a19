#include "core/page_digest.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hicache {
namespace {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

constexpr size_t kWordBytes = kDigestWord;

uint64_t word_at(const std::byte* bytes) {
    uint64_t word = 0;
    std::memcpy(&word, bytes, kWordBytes);
    return word;
}

// The sum of what `words` words add, the first of them with that step.
using SumOf = uint64_t (*)(const std::byte* bytes, size_t words, uint64_t step);

[[gnu::always_inline]] inline uint64_t sum_each(const std::byte* bytes, size_t words,
                                                uint64_t step) {
    uint64_t sum = 0;
    for (size_t i = 0; i < words; ++i)
        sum += digest_share(word_at(bytes + i * kWordBytes), step + i * kDigestStep);
    return sum;
}

uint64_t sum_on_any(const std::byte* bytes, size_t words, uint64_t step) {
    return sum_each(bytes, words, step);
}

#if defined(__x86_64__)
// The same loop with wider instructions: 1.7 and 5 times as fast.
[[gnu::target("avx2")]] uint64_t sum_on_avx2(const std::byte* bytes, size_t words, uint64_t step) {
    return sum_each(bytes, words, step);
}
[[gnu::target("avx512f,avx512dq,avx512vl")]] uint64_t sum_on_avx512(const std::byte* bytes,
                                                                    size_t words, uint64_t step) {
    return sum_each(bytes, words, step);
}
#endif

SumOf fastest_sum() {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return sum_on_avx512;
    if (__builtin_cpu_supports("avx2")) return sum_on_avx2;
#endif
    return sum_on_any;
}

}  // namespace

void DigestSum::add(const std::byte* bytes, size_t count) {
    const size_t within = bytes_ % kWordBytes;
    bytes_ += count;
    if (within > 0) {
        const size_t part = std::min(count, kWordBytes - within);
        std::memcpy(reinterpret_cast<std::byte*>(&begun_) + within, bytes, part);
        if (within + part < kWordBytes) return;
        sum_ += digest_share(begun_, step_);
        step_ += kDigestStep;
        begun_ = 0;
        bytes += part;
        count -= part;
    }
    static const SumOf sum_of = fastest_sum();
    const size_t words = count / kWordBytes;
    sum_ += sum_of(bytes, words, step_);
    step_ += words * kDigestStep;
    std::memcpy(&begun_, bytes + words * kWordBytes, count % kWordBytes);
}

uint64_t DigestSum::digest() const {
    const bool partial = bytes_ % kWordBytes > 0;
    return finished_digest(sum_ + (partial ? digest_share(begun_, step_) : 0), bytes_);
}

uint64_t page_digest(std::span<const std::byte> bytes) {
    DigestSum sum;
    sum.add(bytes.data(), bytes.size());
    return sum.digest();
}

}  // namespace hicache
