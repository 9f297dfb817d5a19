#include "core/numa.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace hicache {
namespace {

constexpr int kMostNodes = 1024;
constexpr int kBits = 8 * sizeof(unsigned long);
constexpr int kPreferred = 1;  // MPOL_PREFERRED; its header comes with libnuma

}  // namespace

int prefer_node(std::byte* begin, int64_t bytes, int node) {
    if (node < 0 || node >= kMostNodes) return EINVAL;
#ifdef SYS_mbind
    std::array<unsigned long, kMostNodes / kBits> mask{};
    mask[static_cast<size_t>(node / kBits)] |= 1UL << (node % kBits);
    // The kernel reads one bit less than it is told of.
    const long status = syscall(SYS_mbind, begin, static_cast<unsigned long>(bytes), kPreferred,
                                mask.data(), static_cast<unsigned long>(kMostNodes + 1), 0U);
    return status == 0 ? 0 : errno;
#else
    static_cast<void>(begin);
    static_cast<void>(bytes);
    return ENOSYS;
#endif
}

}  // namespace hicache
