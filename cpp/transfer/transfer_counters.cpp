#include "transfer/transfer_counters.h"

#include <algorithm>
#include <numeric>

#include "core/errors.h"

namespace hicache {
namespace {

size_t range_of(double seconds) {
    const auto& bounds = kCopySecondsBounds;
    return static_cast<size_t>(std::ranges::lower_bound(bounds, seconds) - bounds.begin());
}

}  // namespace

void TransferCounters::submitted(int64_t runs) {
    std::lock_guard lock(mutex_);
    ++totals_.submitted;
    totals_.runs += runs;
}

void TransferCounters::took(Way way) {
    std::lock_guard lock(mutex_);
    ++totals_.by_way[static_cast<size_t>(way)];
}

void TransferCounters::verified(int64_t pages, int64_t corrupt) {
    std::lock_guard lock(mutex_);
    totals_.verified += pages;
    totals_.corrupt += corrupt;
}

void TransferCounters::waited(std::chrono::nanoseconds time, bool goes_on) {
    std::lock_guard lock(mutex_);
    if (!goes_on) ++totals_.exposed_waits;
    totals_.exposed_wait_ns += time.count();
}

void TransferCounters::finished(bool failed, int64_t pages, int64_t bytes, double seconds) {
    std::lock_guard lock(mutex_);
    ++(failed ? totals_.failed : totals_.copies);
    totals_.pages += pages;
    totals_.bytes += bytes;
    ++totals_.seconds_counts[range_of(seconds)];
    totals_.seconds += seconds;
}

TransferTotals TransferCounters::totals() const {
    std::lock_guard lock(mutex_);
    return totals_;
}

void TransferCounters::check(std::string_view direction) const {
    const TransferTotals now = totals();
    const auto& counts = now.seconds_counts;
    const int64_t counted = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    if (counted != now.copies + now.failed) {
        bad_state(direction, " copies counted by their seconds ", counted, " != ended ",
                  now.copies + now.failed);
    }
}

}  // namespace hicache
