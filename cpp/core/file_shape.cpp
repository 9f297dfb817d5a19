#include "core/file_shape.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "core/blake2b.h"
#include "core/errors.h"
#include "core/page_table.h"

namespace hicache {
namespace {

constexpr uint32_t kByteOrder = 0x01020304;
constexpr int64_t kHugePage = int64_t{2} << 20;

int64_t round_up(int64_t bytes, int64_t unit) {
    return (bytes + unit - 1) / unit * unit;
}

std::string layout_name(const HostLayout& layout) {
    return layout.kind() == LayoutKind::kLayerFirst ? "layer_first" : "page_first";
}

std::array<std::byte, 32> format_digest(const std::string& fingerprint) {
    std::array<std::byte, 32> digest;
    Blake2b hash(digest.size());
    hash.update(std::as_bytes(std::span(fingerprint)));
    hash.finish(digest);
    return digest;
}

uint64_t checksum_of(const FileHeader& header) {
    const auto bytes = std::as_bytes(std::span(&header, 1));
    constexpr size_t begin = offsetof(FileHeader, file_bytes);
    Blake2b hash(sizeof(uint64_t));
    hash.update(bytes.subspan(begin, offsetof(FileHeader, generation) - begin));
    uint64_t sum;
    hash.finish(std::as_writable_bytes(std::span(&sum, 1)));
    return sum;
}

// The text of a field that may lack its end.
template <size_t Size>
std::string text(const char (&field)[Size]) {
    return {field, std::find(field, field + Size, '\0')};
}

template <size_t Size>
void put_text(char (&field)[Size], const std::string& value) {
    std::memcpy(field, value.data(), std::min(value.size(), Size - 1));
}

}  // namespace

FileShape::FileShape(const HostLayout& host, std::string fingerprint, int64_t block,
                     int64_t digest_bytes)
    : num_pages(host.num_pages()),
      page_size(host.format().page_size()),
      layout(layout_name(host)),
      fingerprint(std::move(fingerprint)),
      block(block),
      entry_bytes(PageTable::entry_bytes(page_size)),
      digest_bytes(digest_bytes),
      pool_bytes(host.total_bytes()) {
    if (block <= 0 || (block & (block - 1)) != 0 || digest_bytes < 0) {
        bad_argument("A block of ", block, " bytes and ", digest_bytes,
                     " bytes of digests a page: the block must be a power of two.");
    }
    table_offset = kFileHeaderBytes;
    int64_t end = table_offset + num_pages * entry_bytes;
    digests_offset = digest_bytes > 0 ? end : 0;
    end += num_pages * digest_bytes;
    const int64_t border = pool_bytes >= kHugePage ? kHugePage : kFileHeaderBytes;
    pool_offset = round_up(end, std::max(border, std::min(block, kHugePage)));
    file_bytes = round_up(pool_offset + pool_bytes, std::max(block, kFileHeaderBytes));
}

void fill_header(FileHeader& header, const FileShape& shape) {
    FileHeader made{};
    made.version = kFileVersion;
    made.byte_order = kByteOrder;
    made.file_bytes = shape.file_bytes;
    made.table_offset = shape.table_offset;
    made.entry_bytes = shape.entry_bytes;
    made.digests_offset = shape.digests_offset;
    made.digest_bytes = shape.digest_bytes;
    made.pool_offset = shape.pool_offset;
    made.pool_bytes = shape.pool_bytes;
    made.num_pages = shape.num_pages;
    made.page_size = shape.page_size;
    put_text(made.layout, shape.layout);
    put_text(made.fingerprint, shape.fingerprint);
    made.format = format_digest(shape.fingerprint);
    made.generation = PageTable::first_generation();
    made.checksum = checksum_of(made);
    made.magic = header.magic;
    header = made;
}

std::string misfit(const FileHeader& header, const FileShape& shape, int64_t size, int64_t held) {
    if (size < kFileHeaderBytes || header.magic != kWhole) return "it is no host file";
    if (header.byte_order != kByteOrder) return "it was written with another byte order";
    if (header.version != kFileVersion) {
        return message("it has version ", header.version, ", this is version ", kFileVersion);
    }
    if (header.checksum != checksum_of(header)) return "its header is damaged";
    if (size < header.file_bytes) {
        return message("it has ", size, " bytes of ", header.file_bytes, ": it was truncated");
    }
    const int64_t backed = header.backed != 0 ? header.file_bytes : header.pool_offset;
    if (held < backed) {
        return message("the file system has ", held, " of its ", header.file_bytes,
                       " bytes: a part was cut out of it");
    }
    if (header.format != format_digest(shape.fingerprint)) {
        return message("it holds the format ", text(header.fingerprint), ", wanted is ",
                       shape.fingerprint);
    }
    if (text(header.layout) != shape.layout) {
        return message("it has layout ", text(header.layout), ", wanted is ", shape.layout);
    }
    if (header.num_pages != shape.num_pages) {
        return message("it has ", header.num_pages, " pages, wanted are ", shape.num_pages);
    }
    const auto part = [](const auto& of) {
        return std::array{of.file_bytes,   of.table_offset, of.entry_bytes, of.digests_offset,
                          of.digest_bytes, of.pool_offset,  of.pool_bytes,  of.page_size};
    };
    if (part(header) != part(shape) || size != header.file_bytes) {
        return message("its parts lie elsewhere (", size, " bytes, ", header.digest_bytes,
                       " bytes of digests a page), wanted are ", shape.file_bytes, " and ",
                       shape.digest_bytes);
    }
    if (!PageTable::is_generation(header.generation)) return "its generation is damaged";
    return {};
}

}  // namespace hicache
