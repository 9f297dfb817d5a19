#include "core/file_mapping.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/errors.h"
#include "core/process_id.h"

namespace hicache {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

[[noreturn]] void refused(int64_t bytes) {
    const int error = errno;
    bad_state("mmap of a host file of ", bytes, " bytes: ", std::strerror(error));
}

// Where `bytes` can be mapped on a border of 2 MiB: reserved, nothing behind it.
std::byte* aligned_place(int64_t bytes) {
    const auto reserved = static_cast<size_t>(bytes + kHugePage);
    void* begin =
        mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (begin == MAP_FAILED) refused(bytes);
    const auto first = reinterpret_cast<uintptr_t>(begin);
    const uintptr_t place = (first + kHugePage - 1) & ~static_cast<uintptr_t>(kHugePage - 1);
    const uintptr_t end = place + static_cast<uintptr_t>(bytes);
    if (place > first) munmap(begin, place - first);
    if (first + reserved > end) munmap(reinterpret_cast<void*>(end), first + reserved - end);
    return reinterpret_cast<std::byte*>(place);
}

struct Descriptor {
    const int number;
    ~Descriptor() { ::close(number); }
};

}  // namespace

FileMapping::FileMapping(std::shared_ptr<LockedFile> file, int64_t bytes, int64_t block)
    : file_(std::move(file)), bytes_(bytes) {
    const bool place = bytes >= kHugePage && block < kHugePage;  // hugetlbfs finds one itself
    const Descriptor again{file_->open_again()};
    std::byte* at = place ? aligned_place(bytes) : nullptr;
    void* mapped = mmap(at, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                        MAP_SHARED | (place ? MAP_FIXED : 0), again.number, 0);
    if (mapped == MAP_FAILED) {
        const int error = errno;
        if (place) munmap(at, static_cast<size_t>(bytes));
        errno = error;
        refused(bytes);
    }
    data_ = static_cast<std::byte*>(mapped);
}

FileMapping::~FileMapping() {
    release();
    munmap(data_, static_cast<size_t>(bytes_));
}

void FileMapping::own() {
    const ProcessId self = this_process();
    header().owner_start = self.start;
    header().owner_pid_namespace = self.pid_namespace;
    std::atomic_ref(header().owner_pid).store(self.pid, std::memory_order_release);
    owned_ = true;
}

void FileMapping::release() {
    if (process_.forked()) return;
    if (owned_) std::atomic_ref(header().owner_pid).store(0, std::memory_order_release);
    owned_ = false;
    file_->close();
}

FileHeader read_header(int descriptor) {
    FileHeader header{};
    auto* bytes = reinterpret_cast<char*>(&header);
    for (size_t have = 0; have < sizeof header;) {
        const ssize_t got =
            pread(descriptor, bytes + have, sizeof header - have, static_cast<off_t>(have));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) bad_state("Cannot read a host file: ", std::strerror(errno), ".");
        if (got == 0) break;
        have += static_cast<size_t>(got);
    }
    return header;
}

}  // namespace hicache
