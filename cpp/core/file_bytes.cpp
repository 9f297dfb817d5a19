#include "core/file_bytes.h"

#include <sys/mman.h>

#include <utility>

#include "core/errors.h"
#include "core/numa.h"

namespace hicache {
namespace {

constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

FileBytes::FileBytes(std::shared_ptr<FileMapping> mapping, int64_t offset, int64_t nbytes,
                     int64_t block, const MappingOptions& options)
    : HostBytes(mapping->data() + offset, nbytes),
      mapping_(std::move(mapping)),
      huge_pages_(block >= kHugePage ? HugePages::kExplicit : options.huge_pages),
      node_(bind_to_node(data_, nbytes_, options.node, warning_)) {
    if (block >= kHugePage) return;
    if (huge_pages_ == HugePages::kExplicit) {
        if (!warning_.empty()) warning_ += " ";
        warning_ +=
            "Explicit huge pages of a host file are those of hugetlbfs: give a path there. On this "
            "tmpfs transparent ones are used, as far as it grants them (shmem_enabled, or its "
            "mount option huge=).";
        huge_pages_ = HugePages::kTransparent;
    }
    const bool transparent = huge_pages_ == HugePages::kTransparent;
    madvise(data_, static_cast<size_t>(nbytes_),
            transparent ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);  // a hint: may fail
}

}  // namespace hicache
