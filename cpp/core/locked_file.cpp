#include "core/locked_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <vector>

#include "core/errors.h"

namespace hicache {
namespace {

// All that are open. The mutex is held while one is opened and registered, and by fork().
std::mutex registry_mutex;
std::vector<LockedFile*>& registry() {
    static auto* files = new std::vector<LockedFile*>;  // never destroyed: fork() may come late
    return *files;
}

int open_or_create(const std::string& path) {
    constexpr int kFlags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK;
    // Not O_CREAT at once: in a sticky folder the system may refuse that for a file that exists.
    int descriptor = ::open(path.c_str(), kFlags);
    if (descriptor < 0 && errno == ENOENT) {
        descriptor = ::open(path.c_str(), kFlags | O_CREAT | O_EXCL, 0600);
        if (descriptor < 0 && errno == EEXIST) descriptor = ::open(path.c_str(), kFlags);
    }
    return descriptor;
}

const char* refusal(int error) {
    if (error == ELOOP) return "it is a symbolic link; give the file itself";
    if (error == EISDIR) return "it is a directory; give the path of a file in it";
    if (error == ENXIO) return "it is a socket or a pipe; give another path";
    return std::strerror(error);
}

bool same_file(const struct stat& a, const struct stat& b) {
    return a.st_ino == b.st_ino && a.st_dev == b.st_dev;
}

void require_own(const std::string& path, const struct stat& info) {
    if (!S_ISREG(info.st_mode)) bad_state("Host file ", path, ": it is no regular file.");
    if (info.st_uid != geteuid()) {
        bad_state("Host file ", path, " belongs to user ", info.st_uid, ", this is user ",
                  geteuid(), ": whoever can write it decides what the cache serves.");
    }
    if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        bad_state("Host file ", path, " can be written by others (mode ", std::oct,
                  info.st_mode & 07777, "), who decide what the cache serves: chmod 600 it.");
    }
}

}  // namespace

struct ForkHandlers {
    ForkHandlers() {
        pthread_atfork(&LockedFile::before_fork, &LockedFile::after_fork, &LockedFile::in_child);
    }
};

void LockedFile::before_fork() {
    registry_mutex.lock();
}
void LockedFile::after_fork() {
    registry_mutex.unlock();
}
void LockedFile::in_child() {
    for (LockedFile* file : registry()) {
        ::close(file->descriptor_);
        file->descriptor_ = -1;
    }
    registry().clear();
    registry_mutex.unlock();
}

std::shared_ptr<LockedFile> LockedFile::open(const std::string& path, bool& held) {
    static const ForkHandlers registered;
    held = false;
    const std::shared_ptr<LockedFile> file(new LockedFile(path));
    {
        const std::lock_guard locked(registry_mutex);
        registry().push_back(file.get());
        file->descriptor_ = open_or_create(path);
        if (file->descriptor_ < 0) {
            const int error = errno;
            registry().pop_back();
            bad_state("Host file ", path, " can't be opened: ", refusal(error), ".");
        }
    }
    const struct stat info = file->status();
    require_own(path, info);
    if (flock(file->descriptor_, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        if (error != EWOULDBLOCK) {
            bad_state("Host file ", path, " can't be locked: ", std::strerror(error), ".");
        }
        held = true;
        return nullptr;
    }
    struct stat there{};
    const bool ours = lstat(path.c_str(), &there) == 0 && same_file(there, info);
    return ours ? file : nullptr;
}

struct stat LockedFile::status() const {
    struct stat info{};
    if (fstat(descriptor_, &info) != 0) bad_state("fstat of a host file: ", std::strerror(errno));
    return info;
}

int LockedFile::open_again() const {
    const int descriptor = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    const int error = errno;
    struct stat info{};
    if (descriptor >= 0 && fstat(descriptor, &info) == 0 && same_file(info, status())) {
        return descriptor;
    }
    if (descriptor >= 0) ::close(descriptor);
    bad_state("Host file ", path_, " was taken away while it was opened: ",
              descriptor < 0 ? std::strerror(error) : "another one is there", ".");
}

void LockedFile::close() {
    if (descriptor_ < 0) return;
    const std::lock_guard locked(registry_mutex);
    std::erase(registry(), this);
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
}

}  // namespace hicache
