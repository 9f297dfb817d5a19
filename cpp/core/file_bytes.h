// The pool's bytes of a host file. File and lock are held as long as they are.
#pragma once

#include <memory>

#include "core/anonymous_bytes.h"
#include "core/file_mapping.h"
#include "core/host_bytes.h"

namespace hicache {

class FileBytes : public HostBytes {
  public:
    // [offset, offset + nbytes) of the mapping. block: bytes of a block of the file system; huge
    // pages that are explicit are hugetlbfs's, and those only. What can't be had: warning().
    FileBytes(std::shared_ptr<FileMapping> mapping, int64_t offset, int64_t nbytes, int64_t block,
              const MappingOptions& options);

    [[nodiscard]] HugePages huge_pages() const override { return huge_pages_; }
    [[nodiscard]] int node() const override { return node_; }

  private:
    const std::shared_ptr<FileMapping> mapping_;
    HugePages huge_pages_;
    int node_;
};

}  // namespace hicache
