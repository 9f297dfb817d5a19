// Waiting on a condition variable with an optional limit in seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace hicache {

// A time that does not jump, as the system's may.
using SteadyTime = std::chrono::steady_clock::time_point;
inline constexpr SteadyTime kNoLimit = SteadyTime::max();

// nullopt or more than ten years: no limit. Zero, negative or NaN: now.
inline SteadyTime time_limit(std::optional<double> timeout) {
    constexpr double kTenYears = 3.2e8;
    if (!timeout || *timeout > kTenYears) return kNoLimit;
    const auto now = std::chrono::steady_clock::now();
    if (!(*timeout > 0)) return now;
    return now + std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                     std::chrono::duration<double>(*timeout));
}

// Waits until the variable is notified or the time has come; may return earlier.
inline void wait_once(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                      SteadyTime limit) {
    if (limit == kNoLimit) {
        changed.wait(lock);
    } else {
        changed.wait_until(lock, limit);
    }
}

// Waits until ready() holds; false if the limit passed first.
template <typename Ready>
bool wait_until_ready(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                      std::optional<double> timeout, Ready ready) {
    const SteadyTime limit = time_limit(timeout);
    while (!ready()) {
        if (std::chrono::steady_clock::now() >= limit) return false;
        wait_once(changed, lock, limit);
    }
    return true;
}

}  // namespace hicache
