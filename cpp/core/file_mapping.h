// A host file in memory: all of it, shared with the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/file_shape.h"
#include "core/locked_file.h"
#include "core/process.h"

namespace hicache {

class FileMapping {
  public:
    // Maps the first `bytes` of the file, on a border of 2 MiB where it has as many.
    // Throws: std::runtime_error with the system's words.
    FileMapping(std::shared_ptr<LockedFile> file, int64_t bytes, int64_t block);
    ~FileMapping();
    FileMapping(const FileMapping&) = delete;
    FileMapping& operator=(const FileMapping&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] FileHeader& header() const { return *reinterpret_cast<FileHeader*>(data_); }

    // This process owns the file from now on, until release() or the end.
    void own();
    // Gives up ownership and lock, in good order; the bytes stay mapped. Idempotent. A no-op in a
    // forked child.
    void release();

  private:
    const std::shared_ptr<LockedFile> file_;
    const int64_t bytes_;
    const ProcessMark process_;
    bool owned_ = false;
    std::byte* data_ = nullptr;
};

// The header of a file that may be too short for one: what lacks is 0.
[[nodiscard]] FileHeader read_header(int descriptor);

}  // namespace hicache
