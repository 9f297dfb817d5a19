// An open file under an exclusive lock (flock), which the system ends with the process.
//
// Not inherited: closed when another program is started, and in the child of a fork, so that a
// child that outlives its parent holds no lock.
// Not thread-safe. Fork: the child's object is closed.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>
#include <utility>

namespace hicache {

class LockedFile {
  public:
    // Opens the file, which is made (mode 0600) if there is none, and locks it. nullptr: somebody
    // else holds the lock, or took the file away or replaced it meanwhile; `held` tells which.
    // Throws: std::runtime_error with the system's words: no permission, a directory, a socket, a
    // symbolic link, a file that belongs to or can be written by others.
    [[nodiscard]] static std::shared_ptr<LockedFile> open(const std::string& path, bool& held);

    ~LockedFile() { close(); }
    LockedFile(const LockedFile&) = delete;
    LockedFile& operator=(const LockedFile&) = delete;

    [[nodiscard]] int descriptor() const { return descriptor_; }
    [[nodiscard]] struct stat status() const;
    // The same file, opened a second time, for the caller to close. A lock lasts as long as
    // anything refers to what it was taken on, and a mapping does, also one that a forked child
    // has: what is mapped must not be what is locked.
    // Throws: std::runtime_error: somebody took the file away or replaced it.
    [[nodiscard]] int open_again() const;
    void close();  // idempotent

  private:
    explicit LockedFile(std::string path) : path_(std::move(path)) {}

    static void before_fork();
    static void after_fork();
    static void in_child();
    friend struct ForkHandlers;

    const std::string path_;
    int descriptor_ = -1;
};

}  // namespace hicache
