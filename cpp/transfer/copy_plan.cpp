#include "transfer/copy_plan.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

namespace hicache {
namespace {

using Pair = std::pair<int64_t, int64_t>;  // host page, device page

constexpr size_t kFewPairs = 64;  // comparing is faster up to there
constexpr int kDigitBits = 8;
constexpr size_t kDigits = size_t{1} << kDigitBits;

// Sorts by host page, a digit a pass from the lowest one up; equal ones stay in their order. The
// caller of a copy waits for this: comparing makes a plan of 512 scattered pages three times as
// long, 19 instead of 5 us.
void sort_by_host_page(std::vector<Pair>& pairs) {
    const auto [low, high] = std::minmax_element(
        pairs.begin(), pairs.end(), [](const Pair& a, const Pair& b) { return a.first < b.first; });
    const int64_t lowest = low->first;
    const auto range = static_cast<uint64_t>(high->first - lowest);
    std::vector<Pair> sorted(pairs.size());
    for (int shift = 0; shift < 64 && range >> shift != 0; shift += kDigitBits) {
        const auto digit = [&](const Pair& pair) {
            return static_cast<uint64_t>(pair.first - lowest) >> shift & (kDigits - 1);
        };
        std::array<size_t, kDigits + 1> starts{};
        for (const Pair& pair : pairs)
            ++starts[digit(pair) + 1];
        std::partial_sum(starts.begin(), starts.end(), starts.begin());
        for (const Pair& pair : pairs)
            sorted[starts[digit(pair)]++] = pair;
        pairs.swap(sorted);
    }
}

// Sorts by host page and then by device page: a source may be named twice.
void sort(std::vector<Pair>& pairs) {
    if (std::is_sorted(pairs.begin(), pairs.end())) return;
    if (pairs.size() <= kFewPairs) {
        std::sort(pairs.begin(), pairs.end());
        return;
    }
    sort_by_host_page(pairs);
    for (auto first = pairs.begin(); first != pairs.end();) {
        const auto last = std::find_if(
            first, pairs.end(), [&](const Pair& pair) { return pair.first != first->first; });
        if (last - first > 1) std::sort(first, last);
        first = last;
    }
}

}  // namespace

CopyPlan::CopyPlan(std::span<const int64_t> host_pages, std::span<const int64_t> device_pages) {
    std::vector<Pair> pairs(host_pages.size());
    for (size_t i = 0; i < pairs.size(); ++i)
        pairs[i] = {host_pages[i], device_pages[i]};
    sort(pairs);

    runs_.reserve(pairs.size());
    starts_.reserve(pairs.size() + 1);
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
