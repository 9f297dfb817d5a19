#include "core/touching.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <thread>
#include <vector>

namespace hicache {
namespace {

constexpr int64_t kSmallPage = 4096;
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE; older headers lack the name
constexpr int64_t kGivenBackAtOnce = int64_t{16} << 20;

// A write that changes nothing, whatever others do with the byte.
void write_what_is_there(std::byte* at) {
    std::atomic_ref<unsigned char> byte(*reinterpret_cast<unsigned char*>(at));
    unsigned char seen = byte.load(std::memory_order_relaxed);
    byte.compare_exchange_strong(seen, seen, std::memory_order_relaxed);
}

}  // namespace

bool kernel_populates() {
    // EINVAL for a real range says that it cannot be written to, too.
    static const bool known = madvise(nullptr, 0, kPopulateWrite) == 0;
    return known;
}

int touch(std::byte* begin, int64_t bytes) {
    if (bytes <= 0) return 0;
    std::byte* const end = begin + bytes;
    auto first = reinterpret_cast<uintptr_t>(begin);
    first -= first % kSmallPage;  // madvise() wants a page border
    const auto length = static_cast<size_t>(reinterpret_cast<uintptr_t>(end) - first);
    if (kernel_populates()) {
        while (madvise(reinterpret_cast<void*>(first), length, kPopulateWrite) != 0) {
            if (errno == EFAULT) return ENOSPC;  // of a file: its file system is full
            if (errno != EINTR && errno != EAGAIN) return errno;
        }
        return 0;
    }
    for (std::byte* at = begin; at < end; at += kSmallPage)
        write_what_is_there(at);
    write_what_is_there(end - 1);
    return 0;
}

void give_pages_back(std::byte* begin, int64_t bytes, int threads) noexcept {
    std::atomic<int64_t> next{0};
    const auto work = [&] {
        for (;;) {
            const int64_t at = next.fetch_add(kGivenBackAtOnce, std::memory_order_relaxed);
            if (at >= bytes) return;
            const int64_t size = std::min(kGivenBackAtOnce, bytes - at);
            if (madvise(begin + at, static_cast<size_t>(size), MADV_DONTNEED) != 0) return;
        }
    };
    std::vector<std::thread> others;
    try {
        const int64_t pieces = (bytes + kGivenBackAtOnce - 1) / kGivenBackAtOnce;
        for (int64_t i = 1; i < std::min<int64_t>(threads, pieces); ++i)
            others.emplace_back(work);
    } catch (const std::exception&) {
        // Fewer threads, or none but this one.
    }
    work();
    for (std::thread& each : others)
        each.join();
}

int thread_count(int wanted) {
    if (wanted > 0) return wanted;
    return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

int touching_threads(int wanted) {
    constexpr int kFew = 4;
    const int threads = thread_count(wanted);
    return wanted == 0 && threads >= kFew ? threads - 1 : threads;
}

}  // namespace hicache
