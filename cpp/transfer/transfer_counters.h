// Totals of one direction. They never fall.
//
// Thread-safe. submitted = copies + failed + in flight at any moment.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "transfer/copy_options.h"

namespace hicache {

struct TransferTotals {
    int64_t submitted = 0;                // copies handed in, empty ones included
    int64_t copies = 0;                   // copies that ended well
    int64_t failed = 0;                   // copies that ended with an error
    int64_t pages = 0;                    // whole pages copied, also before a failure
    int64_t bytes = 0;                    // their bytes
    int64_t verified = 0;                 // pages of which at least one digest was compared
    int64_t corrupt = 0;                  // those of them that differed from what was saved
    std::array<int64_t, kWays> by_way{};  // copies started on each way of a GPU
    int64_t runs = 0;             // runs that the pages of the submitted copies were merged into
    int64_t exposed_waits = 0;    // waits for a layer that had not landed when it was needed
    int64_t exposed_wait_ns = 0;  // how long they took in all

    [[nodiscard]] int64_t in_flight() const { return submitted - copies - failed; }
};

class TransferCounters {
  public:
    // time_waits: whether whoever waits for layers is to measure it.
    explicit TransferCounters(bool time_waits = true) : time_waits_(time_waits) {}

    [[nodiscard]] bool time_waits() const { return time_waits_; }

    void submitted(int64_t runs);
    void took(Way way);
    void verified(int64_t pages, int64_t corrupt);
    // Somebody waited for a layer. goes_on: the time belongs to a wait that was counted before.
    void waited(std::chrono::nanoseconds time, bool goes_on = false);
    void finished(bool failed, int64_t pages, int64_t bytes);
    [[nodiscard]] TransferTotals totals() const;

  private:
    const bool time_waits_;
    mutable std::mutex mutex_;
    TransferTotals totals_;
};

}  // namespace hicache
