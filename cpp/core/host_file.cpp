#include "core/host_file.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/available_memory.h"
#include "core/errors.h"
#include "core/file_bytes.h"
#include "core/process_id.h"
#include "core/touching.h"

namespace hicache {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kHugePage = int64_t{2} << 20;
constexpr int kTries = 100;
constexpr int kMostSetAside = 1000;
constexpr int64_t kStep = int64_t{1} << 30;  // bytes reserved in one call, which may be broken off
constexpr int64_t kReservedAtOnce = int64_t{1} << 30;
constexpr double kUnknownOwnerSeconds = 1.0;  // for one whose end can't be seen
constexpr auto kLookAgain = std::chrono::milliseconds(10);

std::string folder_of(const std::string& path) {
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

int64_t held_bytes(const struct stat& info) {
    return int64_t{info.st_blocks} * 512;
}

std::string aside_name(const std::string& path, int number) {
    return message(path, ".set-aside-", number);
}

// Who holds the lock of the file, as its header says.
std::string owner_of(const std::string& path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return "another process";
    const FileHeader header = read_header(descriptor);
    ::close(descriptor);
    if (header.magic != kWhole || header.owner_pid == 0) return "another process, just starting";
    const ProcessId self = this_process();
    if (header.owner_pid_namespace != self.pid_namespace) {
        return message("process ", header.owner_pid, " of another pid namespace");
    }
    if (header.owner_pid == self.pid) return message("this process (", self.pid, ")");
    return message("process ", header.owner_pid);
}

// A GPU may write for a process until that is gone; its lock ends a little earlier.
void wait_until_gone(const std::string& path, const FileHeader& header, double seconds) {
    if (header.magic != kWhole || header.owner_pid == 0) return;
    const ProcessId last{header.owner_pid, header.owner_start, header.owner_pid_namespace};
    const auto begin = Clock::now();
    while (true) {
        const Presence presence = presence_of(last);
        if (presence == Presence::kGone) return;
        const double waited = Seconds(Clock::now() - begin).count();
        if (presence == Presence::kUnknown && waited >= std::min(kUnknownOwnerSeconds, seconds))
            return;
        if (waited >= seconds) {
            bad_state("Host file ", path, ": process ", last.pid,
                      ", which owned it, has not ended ", "after ", seconds,
                      " s; a GPU may still be writing for it. Try again later.");
        }
        std::this_thread::sleep_for(kLookAgain);
    }
}

// What a process leaves that was killed while it made the file.
bool unfinished(const FileHeader& header, const struct stat& info, int64_t block) {
    if (header.magic == kUnfinished || info.st_size == 0) return true;
    const auto* bytes = reinterpret_cast<const char*>(&header);
    const bool empty = std::all_of(bytes, bytes + sizeof header, [](char c) { return c == 0; });
    return empty && held_bytes(info) <= std::max(block, kFileHeaderBytes);
}

// Has the file system back [begin, end) of the file, so that no later store meets a full one.
// Returns 0 or an errno.
int reserve(int descriptor, int64_t begin, int64_t end) {
    while (begin < end) {
        const int64_t bytes = std::min(kStep, end - begin);
        if (fallocate(descriptor, 0, begin, bytes) == 0) {
            begin += bytes;
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

std::string room_on(const std::string& path, const FileShape& shape, const char* reason) {
    struct statvfs info{};
    const int64_t left =
        statvfs(folder_of(path).c_str(), &info) == 0
            ? static_cast<int64_t>(info.f_bavail) * static_cast<int64_t>(info.f_bsize)
            : 0;
    std::string text = message("No room for host file ", path, " of ", shape.file_bytes, " bytes (",
                               shape.num_pages, " pages): ", reason, "; its file system has ", left,
                               " bytes left, the system ", available_memory(), ".");
    for (int number = 1; number <= kMostSetAside; ++number) {
        struct stat aside{};
        const std::string name = aside_name(path, number);
        if (lstat(name.c_str(), &aside) == 0)
            text += message(" ", name, " holds ", held_bytes(aside), ": delete it if you can.");
    }
    return text + " Ask for fewer host pages, or make room.";
}

}  // namespace

int64_t host_file_block(const std::string& path) {
    const std::string folder = folder_of(path);
    struct statfs info{};
    if (statfs(folder.c_str(), &info) != 0) {
        bad_argument("host_file=", path, ": the folder ", folder, ": ", std::strerror(errno), ".");
    }
    const auto type = static_cast<uint64_t>(info.f_type);
    if (type != TMPFS_MAGIC && type != HUGETLBFS_MAGIC) {
        bad_argument("host_file=", path, ": ", folder, " is on no memory file system (type ",
                     std::hex, type, "). A host file is memory: give a path in /dev/shm, another ",
                     "tmpfs, or hugetlbfs.");
    }
    return info.f_bsize;
}

int64_t missing_bytes(const std::string& path, const FileShape& shape) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (descriptor < 0) return shape.file_bytes;
    struct stat info{};
    const bool regular = fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode);
    FileHeader header{};
    try {
        if (regular) header = read_header(descriptor);
    } catch (const std::exception&) {
        // It will not be used.
    }
    ::close(descriptor);
    const int64_t held = held_bytes(info);
    if (!regular || !misfit(header, shape, info.st_size, held).empty()) return shape.file_bytes;
    if (shape.block >= kHugePage) return 0;  // the file has reserved its pages since it was mapped
    return std::max<int64_t>(shape.file_bytes - held, 0);
}

HostFile::HostFile(const std::string& path, const FileShape& shape, bool touched,
                   double wait_seconds)
    : path_(path), shape_(shape), touched_(touched && kernel_populates()) {
    for (int i = 0; i < kTries; ++i) {
        try {
            if (!try_open(wait_seconds)) continue;
        } catch (const std::runtime_error& error) {
            if (warnings_.empty()) throw;
            bad_state(error.what(), " ", warnings_.back());
        }
        mapping_->own();
        table_.emplace(mapping_->data() + shape_.table_offset, &mapping_->header().generation,
                       shape_.num_pages, shape_.page_size, shape_.fingerprint);
        return;
    }
    bad_state("Host file ", path, " was replaced ", kTries, " times while it was opened.");
}

// False: the file was set aside, or somebody else replaced it.
bool HostFile::try_open(double wait_seconds) {
    bool held = false;
    const std::shared_ptr<LockedFile> file = LockedFile::open(path_, held);
    if (held) {
        bad_state("Host file ", path_, " is owned by ", owner_of(path_),
                  ". One cache owns a host file at a time: close that one, or give another path.");
    }
    if (!file) return false;
    const struct stat info = file->status();
    const FileHeader header = read_header(file->descriptor());
    if (unfinished(header, info, shape_.block)) {
        make(file);
        return true;
    }
    wait_until_gone(path_, header, wait_seconds);
    const std::string why = misfit(header, shape_, info.st_size, held_bytes(info));
    if (!why.empty()) {
        set_aside(why, held_bytes(info));
        return false;
    }
    if (!touched_ && header.backed == 0) reserve_rest(file->descriptor());
    mapping_ = std::make_shared<FileMapping>(file, shape_.file_bytes, shape_.block);
    if (!touched_) note_backed();
    return true;
}

// Of a file whose last owner ended before it had touched all of it: nobody will touch it now.
void HostFile::reserve_rest(int descriptor) const {
    const int error = reserve(descriptor, shape_.pool_offset, shape_.file_bytes);
    if (error != 0) bad_state(room_on(path_, shape_, std::strerror(error)));
}

// Makes an empty file of what is there. The magic word says, last, that all is in place.
void HostFile::make(const std::shared_ptr<LockedFile>& file) {
    const int descriptor = file->descriptor();
    std::shared_ptr<FileMapping> mapping;  // holds the lock until the file is gone
    try {
        if (ftruncate(descriptor, 0) != 0 || ftruncate(descriptor, shape_.file_bytes) != 0) {
            bad_state(room_on(path_, shape_, std::strerror(errno)));
        }
        struct statvfs info{};
        const bool known = fstatvfs(descriptor, &info) == 0 && info.f_blocks > 0;
        const auto left = static_cast<double>(info.f_bavail) * static_cast<double>(info.f_bsize);
        if (known && left < static_cast<double>(shape_.file_bytes)) {
            bad_state(room_on(path_, shape_, "the file system is too small"));
        }
        const int64_t first = std::max(shape_.block, kFileHeaderBytes);
        int error = reserve(descriptor, 0, first);
        if (error != 0) bad_state(room_on(path_, shape_, std::strerror(error)));
        try {
            mapping = std::make_shared<FileMapping>(file, shape_.file_bytes, shape_.block);
        } catch (const std::runtime_error& error) {  // hugetlbfs has too few pages
            bad_state(room_on(path_, shape_, error.what()));
        }
        FileHeader& header = mapping->header();
        std::atomic_ref(header.magic).store(kUnfinished, std::memory_order_release);
        // One thread reserves, several touch: the rest of a large file is left to them.
        const bool rest = touched_ && shape_.pool_bytes > kReservedAtOnce;
        error = reserve(descriptor, first, rest ? shape_.pool_offset : shape_.file_bytes);
        if (error != 0) bad_state(room_on(path_, shape_, std::strerror(error)));
        fill_header(header, shape_);
        header.backed = rest ? 0 : 1;
        std::atomic_ref(header.magic).store(kWhole, std::memory_order_release);
        mapping_ = std::move(mapping);
        created_ = true;
    } catch (...) {
        unlink(path_.c_str());
        throw;
    }
}

void HostFile::set_aside(const std::string& why, int64_t bytes) {
    for (int number = 1; number <= kMostSetAside; ++number) {
        const std::string name = aside_name(path_, number);
        struct stat there{};
        if (lstat(name.c_str(), &there) == 0) continue;
        if (renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, name.c_str(), RENAME_NOREPLACE) == 0) {
            warnings_.push_back(message("Host file ", path_, " can't be used: ", why,
                                        ". It was set aside as ", name, ", which holds ", bytes,
                                        " bytes: delete it to free them."));
            return;
        }
        if (errno == EEXIST) continue;
        bad_state("Host file ", path_, " can't be used: ", why,
                  "; nor can it be renamed: ", std::strerror(errno),
                  ". Remove it, or give another path.");
    }
    bad_state("Host file ", path_, " can't be used: ", why, "; ", kMostSetAside,
              " files were set aside before it. Delete them.");
}

HostMemory HostFile::memory(const PreparationOptions& preparation,
                            const MappingOptions& mapping) const {
    return {std::make_shared<const FileBytes>(mapping_, shape_.pool_offset, shape_.pool_bytes,
                                              shape_.block, mapping),
            preparation};
}

HostMemory HostFile::digests() const {
    return {std::make_shared<const FileBytes>(mapping_, shape_.digests_offset,
                                              shape_.num_pages * shape_.digest_bytes, shape_.block,
                                              MappingOptions{HugePages::kOff}),
            {.prefault = false}};
}

bool HostFile::backed() const {
    return mapping_ && std::atomic_ref(mapping_->header().backed).load() != 0;
}

void HostFile::note_backed() {
    if (!mapping_ || process_.forked()) return;
    std::atomic_ref(mapping_->header().backed).store(1, std::memory_order_release);
}

PageTable& HostFile::table() {
    if (!table_) bad_state("Host file ", path_, " is closed.");
    process_.require_same("host file");
    return *table_;
}

void HostFile::close() {
    if (process_.forked()) return;
    table_.reset();
    if (mapping_) mapping_->release();
    mapping_.reset();
}

}  // namespace hicache
