#include "transfer/copy_plan.h"

#include <algorithm>
#include <utility>

namespace hicache {

CopyPlan::CopyPlan(std::span<const int64_t> host_pages, std::span<const int64_t> device_pages) {
    std::vector<std::pair<int64_t, int64_t>> pairs(host_pages.size());
    for (size_t i = 0; i < pairs.size(); ++i)
        pairs[i] = {host_pages[i], device_pages[i]};
    if (!std::is_sorted(pairs.begin(), pairs.end())) std::sort(pairs.begin(), pairs.end());

    int64_t pages = 0;
    for (const auto& [host, device] : pairs) {
        if (!runs_.empty()) {
            PageRun& last = runs_.back();
            if (last.host_page + last.count == host && last.device_page + last.count == device) {
                ++last.count;
                ++pages;
                continue;
            }
        }
        starts_.push_back(pages++);
        runs_.push_back({host, device, 1});
    }
    starts_.push_back(pages);
}

size_t CopyPlan::run_of(int64_t page) const {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), page);
    return static_cast<size_t>(after - starts_.begin()) - 1;
}

}  // namespace hicache
