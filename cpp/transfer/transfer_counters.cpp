#include "transfer/transfer_counters.h"

namespace hicache {

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

void TransferCounters::finished(bool failed, int64_t pages, int64_t bytes) {
    std::lock_guard lock(mutex_);
    ++(failed ? totals_.failed : totals_.copies);
    totals_.pages += pages;
    totals_.bytes += bytes;
}

TransferTotals TransferCounters::totals() const {
    std::lock_guard lock(mutex_);
    return totals_;
}

}  // namespace hicache
