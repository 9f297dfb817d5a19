#include "core/host_layout.h"

#include <array>
#include <utility>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 62;
constexpr std::array<std::pair<std::string_view, LayoutKind>, 3> kLayouts{{
    {"layer_first", LayoutKind::kLayerFirst},
    {"page_first", LayoutKind::kPageFirst},
    {"page_first_direct", LayoutKind::kPageFirstDirect},
}};

LayoutKind parse_layout(std::string_view name) {
    for (const auto& [known, kind] : kLayouts) {
        if (known == name) return kind;
    }
    bad_argument("Unknown layout '", name, "'; use layer_first, page_first or page_first_direct.");
}

}  // namespace

HostLayout::HostLayout(PoolFormat format, std::string_view layout, int64_t num_pages)
    : format_(std::move(format)), kind_(parse_layout(layout)), num_pages_(num_pages) {
    if (num_pages < 0) bad_argument("num_pages is ", num_pages, "; it must not be negative.");
    const int64_t page_bytes = format_.page_bytes();
    if (page_bytes > 0 && num_pages > kMaxBytes / page_bytes) {
        bad_argument("A pool of ", num_pages, " pages of ", page_bytes,
                     " bytes exceeds 2^62 bytes.");
    }
}

std::string HostLayout::name() const {
    for (const auto& [name, kind] : kLayouts) {
        if (kind == kind_) return std::string(name);
    }
    return {};
}

int64_t HostLayout::offset(int buffer, int layer, int64_t page) const {
    if (buffer < 0 || buffer >= format_.num_buffers()) {
        bad_argument("Buffer ", buffer, " is outside 0 to ", format_.num_buffers() - 1, ".");
    }
    if (layer < 0 || layer >= format_.num_layers()) {
        bad_argument("Layer ", layer, " is outside 0 to ", format_.num_layers() - 1, ".");
    }
    if (page < 0 || page >= num_pages_) {
        bad_argument("Page ", page, " is outside the pool of ", num_pages_, " pages.");
    }
    if (format_.start_in_layer(buffer, layer) < 0) {
        bad_argument("Layer ", layer, " does not own buffer '", format_.buffers()[buffer].name,
                     "'.");
    }
    return base(buffer, layer) + page * page_stride(layer);
}

int64_t HostLayout::base(int buffer, int layer) const {
    const int64_t start = format_.layer_start(layer);
    const int64_t entry = kind_ == LayoutKind::kLayerFirst ? start * num_pages_ : start;
    return entry + format_.start_in_layer(buffer, layer);
}

int64_t HostLayout::page_stride(int layer) const {
    if (kind_ != LayoutKind::kLayerFirst) return format_.page_bytes();
    return format_.layer_start(layer + 1) - format_.layer_start(layer);
}

}  // namespace hicache
