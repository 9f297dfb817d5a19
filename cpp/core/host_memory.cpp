#include "core/host_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/available_memory.h"
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
constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE; older headers lack the name

// std::bad_alloc that says how much was asked for.
class MappingFailed : public std::bad_alloc {
  public:
    explicit MappingFailed(std::string text) : text_(std::move(text)) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

MappingFailed failure(int64_t nbytes, const char* reason, int64_t most) {
    return MappingFailed(message("Cannot map ", nbytes, " bytes of host memory: ", reason, "; ",
                                 most, " bytes are available. Ask for fewer host pages."));
}

// Has the kernel back the range with memory now. Returns 0 or an errno.
int fault_in(std::byte* begin, std::byte* end) {
    while (begin < end) {
        if (madvise(begin, static_cast<size_t>(end - begin), kPopulateWrite) == 0) return 0;
        if (errno == EINVAL) break;  // a kernel before 5.14
        if (errno != EINTR && errno != EAGAIN) return errno;
    }
    for (volatile std::byte* at = begin; at < end; at += kSmallPage)
        *at = std::byte{0};
    return 0;
}

int fault_in_parallel(std::byte* begin, int64_t nbytes, int threads) {
    const int64_t blocks = (nbytes + kHugePage - 1) / kHugePage;
    const int64_t count = std::clamp<int64_t>(threads, 1, std::max<int64_t>(blocks, 1));
    std::atomic<int> error{0};
    std::vector<std::thread> workers;
    for (int64_t i = 0; i < count; ++i) {
        auto* from = begin + std::min(nbytes, blocks * i / count * kHugePage);
        auto* to = begin + std::min(nbytes, blocks * (i + 1) / count * kHugePage);
        workers.emplace_back([from, to, &error] {
            if (const int failed = fault_in(from, to); failed != 0) error = failed;
        });
    }
    for (auto& worker : workers)
        worker.join();
    return error;
}

}  // namespace

class HostMemory::Mapping {
  public:
    Mapping(int64_t nbytes, int threads, bool prefault, int64_t most) : nbytes_(nbytes) {
        if (nbytes == 0) return;
        const bool huge = nbytes >= kHugePage;
        const int64_t alignment = huge ? kHugePage : kSmallPage;
        mapped_bytes_ = nbytes + 2 * kGuardBytes + alignment;
        mapped_ = mmap(nullptr, static_cast<size_t>(mapped_bytes_), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (mapped_ == MAP_FAILED) throw failure(nbytes, std::strerror(errno), most);
        const auto first = reinterpret_cast<uintptr_t>(mapped_) + kGuardBytes;
        const auto mask = static_cast<uintptr_t>(alignment - 1);
        data_ = reinterpret_cast<std::byte*>((first + mask) & ~mask);
        if (huge) madvise(data_, static_cast<size_t>(nbytes), MADV_HUGEPAGE);  // a hint: may fail
        const int error = prefault ? fault_in_parallel(data_, nbytes, threads) : 0;
        if (error != 0) {
            munmap(mapped_, static_cast<size_t>(mapped_bytes_));
            throw failure(nbytes, std::strerror(error), most);
        }
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

HostMemory::HostMemory(int64_t nbytes, int threads, bool prefault, std::optional<int64_t> most) {
    if (nbytes < 0) bad_argument("nbytes is ", nbytes, "; it must not be negative.");
    if (threads < 0) bad_argument("threads is ", threads, "; it must not be negative.");
    if (most && *most < 0) bad_argument("most is ", *most, "; it must not be negative.");
    const int64_t room = most ? *most : available_memory();
    if (nbytes > kMaxBytes || ((prefault || most) && nbytes > room)) {
        throw failure(nbytes, "not enough memory", room);
    }
    if (threads == 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    mapping_ = std::make_shared<Mapping>(nbytes, threads, prefault, room);
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
