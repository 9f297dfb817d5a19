// Where a page's bytes lie in the host pool: pure 64-bit arithmetic, no memory behind it.
//
//   layer_first         [layer][page][buffers of the layer side by side]
//   page_first          [page][layer][buffers of the layer side by side]; a record is contiguous
//   page_first_direct   the same bytes as page_first; copied by copy engine
//
// The buffers of one layer of one page form an entry, in the order of the format. Immutable, so
// safe to share between threads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/pool_format.h"

namespace hicache {

enum class LayoutKind { kLayerFirst, kPageFirst, kPageFirstDirect };

class HostLayout {
  public:
    // Throws: std::invalid_argument for an unknown layout name, a negative num_pages or a pool
    // beyond 2^62 bytes.
    HostLayout(PoolFormat format, std::string_view layout, int64_t num_pages);

    [[nodiscard]] const PoolFormat& format() const { return format_; }
    [[nodiscard]] LayoutKind kind() const { return kind_; }
    [[nodiscard]] std::string name() const;
    [[nodiscard]] int64_t num_pages() const { return num_pages_; }
    [[nodiscard]] int64_t total_bytes() const { return num_pages_ * format_.page_bytes(); }

    // First byte of one (buffer, layer, page).
    // Throws: std::invalid_argument if one is out of range or the layer does not own the buffer.
    [[nodiscard]] int64_t offset(int buffer, int layer, int64_t page) const;

    // offset(buffer, layer, p) = base(buffer, layer) + p * page_stride(layer).
    // Requires: the layer owns the buffer.
    [[nodiscard]] int64_t base(int buffer, int layer) const;
    [[nodiscard]] int64_t page_stride(int layer) const;

  private:
    PoolFormat format_;
    LayoutKind kind_;
    int64_t num_pages_;
};

}  // namespace hicache
