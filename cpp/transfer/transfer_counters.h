// Totals of one direction. They never fall.
//
// Thread-safe. submitted = copies + failed + in flight, and copies + failed = the sum of
// seconds_counts, at any moment.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "transfer/copy_options.h"

namespace hicache {

// Copies are counted by how long they took: up to and including a bound, in seconds, and above the
// one before. One more range holds what is above all.
inline constexpr std::array kCopySecondsBounds{1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2,
                                               5e-2, 0.1,  0.2,  0.5,  1.0,  2.0,  5.0,  10.0};
using SecondsCounts = std::array<int64_t, kCopySecondsBounds.size() + 1>;

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
    // Of all copies that ended, failed and empty ones included; one that never started took 0 s.
    SecondsCounts seconds_counts{};
    double seconds = 0;  // of all of them

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
    // seconds: from the start of copying to the end.
    void finished(bool failed, int64_t pages, int64_t bytes, double seconds);
    [[nodiscard]] TransferTotals totals() const;
    // Throws: std::runtime_error with both sides of an equation that does not hold.
    void check(std::string_view direction) const;

  private:
    const bool time_waits_;
    mutable std::mutex mutex_;
    TransferTotals totals_;
};

}  // namespace hicache
