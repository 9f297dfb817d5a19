#include "core/host_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int64_t kSmallPage = 4096;
constexpr int64_t kMaxBytes = int64_t{1} << 62;
#ifdef HICACHE_GUARD_ZONES
constexpr int64_t kGuardBytes = kSmallPage;
#else
constexpr int64_t kGuardBytes = 0;
#endif
constexpr unsigned char kGuardByte = 0xA5;

// std::bad_alloc that says how much was asked for.
class MappingFailed : public std::bad_alloc {
  public:
    explicit MappingFailed(std::string text) : text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

int64_t physical_bytes() {
    return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

// Writes one byte a page, so that the kernel backs the range with memory now.
void touch(std::byte* begin, std::byte* end) {
    for (volatile std::byte* at = begin; at < end; at += kSmallPage)
        *at = std::byte{0};
}

void touch_in_parallel(std::byte* begin, int64_t nbytes, int threads) {
    const int64_t blocks = (nbytes + kHugePage - 1) / kHugePage;
    const int64_t count = std::clamp<int64_t>(threads, 1, std::max<int64_t>(blocks, 1));
    std::vector<std::thread> workers;
    for (int64_t i = 0; i < count; ++i) {
        auto* from = begin + std::min(nbytes, blocks * i / count * kHugePage);
        auto* to = begin + std::min(nbytes, blocks * (i + 1) / count * kHugePage);
        if (i + 1 < count) {
            workers.emplace_back(touch, from, to);
        } else {
            touch(from, to);
        }
    }
    for (auto& worker : workers)
        worker.join();
}

}  // namespace

class HostMemory::Mapping {
  public:
    Mapping(int64_t nbytes, int threads, bool prefault) : nbytes_(nbytes) {
        if (nbytes == 0) return;
        const bool huge = nbytes >= kHugePage;
        const int64_t alignment = huge ? kHugePage : kSmallPage;
        mapped_bytes_ = nbytes + 2 * kGuardBytes + alignment;
        mapped_ = mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped_ == MAP_FAILED) {
            throw MappingFailed(message(
                "Cannot map ", nbytes, " bytes of host memory: ", std::strerror(errno),
                "; the machine has ", physical_bytes(), " bytes. Ask for fewer host pages."));
        }
        const auto first = reinterpret_cast<uintptr_t>(mapped_) + kGuardBytes;
        const auto mask = static_cast<uintptr_t>(alignment - 1);
        data_ = reinterpret_cast<std::byte*>((first + mask) & ~mask);
        if (huge) madvise(data_, static_cast<size_t>(nbytes), MADV_HUGEPAGE);  // a hint: may fail
        if (prefault) touch_in_parallel(data_, nbytes, threads);
        std::memset(data_ - kGuardBytes, kGuardByte, kGuardBytes);
        std::memset(data_ + nbytes, kGuardByte, kGuardBytes);
    }

    ~Mapping() {
        if (data_ != nullptr) munmap(mapped_, static_cast<size_t>(mapped_bytes_));
    }

    Mapping(const Mapping&) = delete;
    Mapping& operator=(const Mapping&) = delete;

    [[nodiscard]] int64_t nbytes() const { return nbytes_; }
    [[nodiscard]] std::byte* data() const { return data_; }

    void check() const {
        if (data_ == nullptr) return;
        check_zone(-kGuardBytes);
        check_zone(nbytes_);
    }

  private:
    void check_zone(int64_t start) const {
        for (int64_t i = start; i < start + kGuardBytes; ++i) {
            if (data_[i] != std::byte{kGuardByte}) {
                bad_state("Guard byte at offset ", i, " of a host pool of ", nbytes_, " bytes is ",
                          std::to_integer<int>(data_[i]), ", expected ", int{kGuardByte},
                          ": a copy wrote outside the pool.");
            }
        }
    }

    int64_t nbytes_;
    int64_t mapped_bytes_ = 0;
    void* mapped_ = nullptr;
    std::byte* data_ = nullptr;
};

HostMemory::HostMemory(int64_t nbytes, int threads, bool prefault) {
    if (nbytes < 0) bad_argument("nbytes is ", nbytes, "; it must not be negative.");
    if (threads < 0) bad_argument("threads is ", threads, "; it must not be negative.");
    if (nbytes > kMaxBytes || (prefault && nbytes > physical_bytes())) {
        throw MappingFailed(message("Cannot map ", nbytes,
                                    " bytes of host memory: the machine has ", physical_bytes(),
                                    " bytes. Ask for fewer host pages."));
    }
    if (threads == 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    mapping_ = std::make_shared<Mapping>(nbytes, threads, prefault);
}

int64_t HostMemory::nbytes() const {
    return mapping_->nbytes();
}
std::byte* HostMemory::data() const {
    return mapping_->data();
}
bool HostMemory::guarded() {
    return kGuardBytes > 0;
}
void HostMemory::check() const {
    mapping_->check();
}

}  // namespace hicache
