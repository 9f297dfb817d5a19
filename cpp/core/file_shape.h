// What a host file holds and where its parts lie: pure arithmetic, no file behind it.
//
//   header | page table, an entry a page | room for digests, if any | pool bytes
//
// The pool starts on a border of 2 MiB (a pool below 2 MiB on one of 4 KiB), the file is a whole
// number of the file system's blocks: on hugetlbfs of its huge pages.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/host_layout.h"

namespace hicache {

inline constexpr int64_t kFileHeaderBytes = 4096;

struct FileShape {
    // fingerprint: everything that decides what a page's bytes mean. block: bytes of a block of
    // the file system. digest_bytes: room for digests, bytes a page.
    // Throws: std::invalid_argument for a block that is no power of two.
    FileShape(const HostLayout& layout, std::string fingerprint, int64_t block,
              int64_t digest_bytes = 0);

    int64_t num_pages;
    int64_t page_size;
    std::string layout;  // layouts with the same bytes have one name
    std::string fingerprint;
    int64_t block;
    int64_t entry_bytes;
    int64_t digest_bytes;
    int64_t table_offset;
    int64_t digests_offset;  // 0: no digests
    int64_t pool_offset;
    int64_t pool_bytes;
    int64_t file_bytes;
};

// The first bytes of a host file, as they lie there.
struct FileHeader {
    uint64_t magic;  // kWhole once everything is in place, kUnfinished while the file is made
    uint32_t version;
    uint32_t byte_order;
    uint64_t checksum;  // over what follows, up to `generation`
    int64_t file_bytes;
    int64_t table_offset;
    int64_t entry_bytes;
    int64_t digests_offset;
    int64_t digest_bytes;
    int64_t pool_offset;
    int64_t pool_bytes;
    int64_t num_pages;
    int64_t page_size;
    char layout[32];
    std::array<std::byte, 32> format;  // BLAKE2b-256 of the fingerprint
    char fingerprint[1024];            // its beginning, for messages
    // What follows changes while the file is in use.
    uint64_t generation;  // of the page table, see there
    uint64_t owner_pid;   // 0: the last owner closed the file
    uint64_t owner_start;
    uint64_t owner_pid_namespace;
    uint32_t attach_version;  // for ranks that attach to one owner's pool: none yet
    uint32_t attached;
    uint32_t backed;  // the file system has every byte; else the pool's may be missing
    std::byte reserved[2868];
};
static_assert(sizeof(FileHeader) == kFileHeaderBytes);

inline constexpr uint64_t kWhole = 0x31454C4946434948;       // "HICFILE1"
inline constexpr uint64_t kUnfinished = 0x30454C4946434948;  // "HICFILE0"
inline constexpr uint32_t kFileVersion = 1;

// Fills everything but `magic`, for an empty file of that shape.
void fill_header(FileHeader& header, const FileShape& shape);

// Why the file can't be used for `shape`; empty if it can. size, held: bytes of the file, and how
// many of them the file system has.
[[nodiscard]] std::string misfit(const FileHeader& header, const FileShape& shape, int64_t size,
                                 int64_t held);

}  // namespace hicache
