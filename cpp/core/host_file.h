// A host pool in a file of a memory file system, with a page table that outlives the process.
//
// One process owns the file at a time. A file that was not made for this very format, layout and
// size, or that is damaged, is set aside under another name and never served.
// Truncating or writing the file while it is owned is not defended against: the owner dies of
// SIGBUS, or serves what was written.
//
// Thread-safety: as PageTable. Fork: the child has no lock, and leaves the file alone.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/file_mapping.h"
#include "core/file_shape.h"
#include "core/host_memory.h"
#include "core/locked_file.h"
#include "core/page_table.h"
#include "core/process.h"

namespace hicache {

// Bytes of a block of the file system that the file is, or will be, on.
// Throws: std::invalid_argument: the folder isn't there, or on no memory file system (tmpfs,
// hugetlbfs).
[[nodiscard]] int64_t host_file_block(const std::string& path);

// Bytes that a file of that shape at that path still takes: none if there is one that can be used
// as it is, all of them where it will be made. Looks without the lock.
[[nodiscard]] int64_t missing_bytes(const std::string& path, const FileShape& shape);

class HostFile {
  public:
    // Opens the file, or makes one. touched: the pool's bytes are touched before they are used, so
    // that a large file need not be reserved at once. wait_seconds: how long at most to wait until
    // the process that owned it last is really gone, since a GPU may still be writing for it.
    // Throws: std::runtime_error with the numbers and the next step: owned by another process (or
    // by this one), no permission, no regular file, no room (what was made of it is removed).
    HostFile(const std::string& path, const FileShape& shape, bool touched, double wait_seconds);

    // What the user should know: which files were set aside, and why.
    [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }
    [[nodiscard]] bool created() const { return created_; }
    [[nodiscard]] const FileShape& shape() const { return shape_; }

    // The pool's bytes. File and lock are held, also when this object is gone, until close() or
    // until the last of these handles goes.
    [[nodiscard]] HostMemory memory(const PreparationOptions& preparation,
                                    const MappingOptions& mapping) const;
    // The room for digests, reserved with the page table: used where it is written.
    // Requires: the shape has digests.
    [[nodiscard]] HostMemory digests() const;
    // Whether the file system has every byte of it: none is still to be taken. After close(): no.
    [[nodiscard]] bool backed() const;
    // All of the pool's bytes have been touched: a hole in them is damage from now on. After
    // close(): nothing.
    void note_backed();

    // Throws: std::runtime_error after close() or in a forked child.
    [[nodiscard]] PageTable& table();

    // Ends ownership. Requires: no copy runs, no table is used any more. Idempotent.
    void close();

  private:
    [[nodiscard]] bool try_open(double wait_seconds);
    void make(const std::shared_ptr<LockedFile>& file);
    void reserve_rest(int descriptor) const;
    void set_aside(const std::string& why, int64_t bytes);

    const std::string path_;
    const FileShape shape_;
    const bool touched_;
    const ProcessMark process_;
    std::vector<std::string> warnings_;
    bool created_ = false;
    std::shared_ptr<FileMapping> mapping_;
    std::optional<PageTable> table_;
};

}  // namespace hicache
