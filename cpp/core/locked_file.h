// An open file under an exclusive lock (flock), which the system ends with the process.
//
// Not inherited: closed when another program is started, and in the child of a fork, so that a
// child that outlives its parent holds no lock.
// Not thread-safe. Fork: the child's object is closed.
#pragma once

#include <sys/stat.h>

#include <memory>
#include <string>

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
    void close();  // idempotent

  private:
    LockedFile() = default;

    static void before_fork();
    static void after_fork();
    static void in_child();
    friend struct ForkHandlers;

    int descriptor_ = -1;
};

}  // namespace hicache
