// Has the kernel back host memory with pages, and take them back, without holding up other threads.
//
// Both calls of the kernel hold the process's lock on its mappings, and a thread that maps or
// unmaps anything meanwhile waits for them: so they are made over small pieces.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hicache {

// Bytes that one call of the kernel touches: a few milliseconds.
inline constexpr int64_t kTouchedAtOnce = int64_t{4} << 20;

// Touches the range; its content stays as it is. Returns 0 or an errno.
[[nodiscard]] int touch(std::byte* begin, int64_t bytes);

// Gives the pages of an anonymous mapping back, on several threads; its content is lost. What
// cannot be given back stays until the range is unmapped.
void give_pages_back(std::byte* begin, int64_t bytes, int threads) noexcept;

// Threads to work with: `wanted`, or as many as there are cores for 0.
[[nodiscard]] int thread_count(int wanted);
// The same to touch memory beside other work: from four cores on one is left to it.
[[nodiscard]] int touching_threads(int wanted);

}  // namespace hicache
