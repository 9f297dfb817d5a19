#include "core/anonymous_bytes.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "core/errors.h"
#include "core/huge_pages.h"
#include "core/mapping_failed.h"
#include "core/numa.h"
#include "core/touching.h"

namespace hicache {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kSmallPage = 4096;
#ifdef HICACHE_GUARD_ZONES
constexpr int64_t kGuardBytes = kSmallPage;
#else
constexpr int64_t kGuardBytes = 0;
#endif
constexpr unsigned char kGuardByte = 0xA5;
constexpr int kProtection = PROT_READ | PROT_WRITE;

}  // namespace

AnonymousBytes::AnonymousBytes(int64_t nbytes, const MappingOptions& options)
    : HostBytes(nullptr, nbytes), threads_(options.threads), huge_pages_(options.huge_pages) {
    if (nbytes == 0) return;
    if (huge_pages_ != HugePages::kExplicit || !map_explicit()) map_small();
    if (options.node >= 0) bind(options.node);
    if (huge_pages_ == HugePages::kExplicit) return;
    std::memset(data_ - kGuardBytes, kGuardByte, kGuardBytes);
    std::memset(data_ + nbytes_, kGuardByte, kGuardBytes);
}

AnonymousBytes::~AnonymousBytes() {
    if (data_ == nullptr) return;
    if (!process_.forked()) give_pages_back(data_, nbytes_, thread_count(threads_));
    munmap(mapped_, static_cast<size_t>(mapped_bytes_));
}

bool AnonymousBytes::map_explicit() {
    const HugePagePool pool = huge_page_pool();
    if (pool.page_bytes > 0) {
        mapped_bytes_ = pool.pages_of(nbytes_) * pool.page_bytes;
        mapped_ = mmap(nullptr, static_cast<size_t>(mapped_bytes_), kProtection,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
        if (mapped_ != MAP_FAILED) {  // the pages are reserved now: to touch them cannot fail
            data_ = static_cast<std::byte*>(mapped_);
            return true;
        }
    }
    warning_ = no_huge_pages(pool, nbytes_);
    huge_pages_ = HugePages::kTransparent;
    return false;
}

void AnonymousBytes::map_small() {
    const bool large = nbytes_ >= kHugePage;
    const int64_t alignment = large ? kHugePage : kSmallPage;
    mapped_bytes_ = nbytes_ + 2 * kGuardBytes + alignment;
    mapped_ = mmap(nullptr, static_cast<size_t>(mapped_bytes_), kProtection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped_ == MAP_FAILED) throw MappingFailed(nbytes_, std::strerror(errno));
    const auto first = reinterpret_cast<uintptr_t>(mapped_) + kGuardBytes;
    const auto mask = static_cast<uintptr_t>(alignment - 1);
    data_ = reinterpret_cast<std::byte*>((first + mask) & ~mask);
    const bool transparent = huge_pages_ == HugePages::kTransparent;
    if (large || !transparent) {  // a hint: may fail
        madvise(data_, static_cast<size_t>(nbytes_), transparent ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    }
}

void AnonymousBytes::bind(int node) {
    const bool whole = huge_pages_ == HugePages::kExplicit;  // whose borders are its pages'
    const int error = prefer_node(data_, whole ? mapped_bytes_ : nbytes_, node);
    if (error == 0) {
        node_ = node;
        return;
    }
    if (!warning_.empty()) warning_ += " ";
    warning_ += message("Host memory of ", nbytes_, " bytes cannot be bound to NUMA node ", node,
                        ": ", std::strerror(error),
                        "; it comes from wherever the kernel takes it. Give numa='off', or a node "
                        "that /sys/devices/system/node lists.");
}

bool AnonymousBytes::guarded() {
    return kGuardBytes > 0;
}

void AnonymousBytes::check() const {
    if (data_ == nullptr || huge_pages_ == HugePages::kExplicit) return;
    check_zone(-kGuardBytes);
    check_zone(nbytes_);
}

void AnonymousBytes::check_zone(int64_t start) const {
    for (int64_t i = start; i < start + kGuardBytes; ++i) {
        if (data_[i] != std::byte{kGuardByte}) {
            bad_state("Guard byte at offset ", i, " of a host pool of ", nbytes_, " bytes is ",
                      std::to_integer<int>(data_[i]), ", expected ", int{kGuardByte},
                      ": a copy wrote outside the pool.");
        }
    }
}

}  // namespace hicache
