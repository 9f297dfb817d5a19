#include "transfer/page_hazards.h"

#include <algorithm>

#include "core/errors.h"

namespace hicache {
namespace {

void check_range(std::span<const int64_t> pages, int64_t limit, const char* tier) {
    bool outside = false;
    for (const int64_t page : pages)
        outside |= static_cast<uint64_t>(page) >= static_cast<uint64_t>(limit);
    if (!outside) return;
    for (size_t i = 0; i < pages.size(); ++i) {
        if (pages[i] < 0 || pages[i] >= limit) {
            bad_argument("Page ", pages[i], " (entry ", i, ") is outside the ", tier, " pool of ",
                         limit, " pages; nothing was copied.");
        }
    }
}

}  // namespace

PageHazards::PageHazards(int64_t host_pages, int64_t device_pages)
    : host_(host_pages), device_(device_pages) {}

void PageHazards::check_pages(Direction direction, std::span<const int64_t> host_pages,
                              std::span<const int64_t> device_pages) {
    if (host_pages.size() != device_pages.size()) {
        bad_argument(host_pages.size(), " host pages and ", device_pages.size(),
                     " device pages were given; they are copied in pairs.");
    }
    check_range(host_pages, host_.size(), "host");
    check_range(device_pages, device_.size(), "device");
    const bool load = direction == Direction::kHostToDevice;
    Tier& destination = load ? device_ : host_;
    ++checks_;
    for (const int64_t page : load ? device_pages : host_pages) {
        int64_t& seen = destination[page].seen;
        if (seen == checks_) {
            bad_argument("Destination page ", page, " of the ", load ? "device" : "host",
                         " pool is named twice; nothing was copied.");
        }
        seen = checks_;
    }
}

int64_t PageHazards::note_tier(Tier& tier, Direction direction, int64_t sequence,
                               std::span<const int64_t> pages) {
    const int mine = index(direction);
    const int others = index(opposite(direction));
    int64_t latest = 0;
    for (const int64_t page : pages) {
        auto& last = tier[page].last;
        latest = std::max(latest, last[others]);
        last[mine] = sequence;
    }
    return latest;
}

int64_t PageHazards::note(Direction direction, int64_t sequence,
                          std::span<const int64_t> host_pages,
                          std::span<const int64_t> device_pages) {
    return std::max(note_tier(host_, direction, sequence, host_pages),
                    note_tier(device_, direction, sequence, device_pages));
}

}  // namespace hicache
