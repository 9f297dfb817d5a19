// Waiting on a condition variable with an optional limit in seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>

namespace hicache {

// Waits until ready() holds; false if the limit passed first. nullopt or more than ten years: no
// limit. Zero, negative or NaN: looks once.
template <typename Ready>
bool wait_until_ready(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                      std::optional<double> timeout, Ready ready) {
    constexpr double kTenYears = 3.2e8;
    if (!timeout || *timeout > kTenYears) {
        changed.wait(lock, ready);
        return true;
    }
    if (!(*timeout > 0)) return ready();
    // A system_clock-free wait: steady time does not jump.
    const auto limit = std::chrono::steady_clock::now() +
                       std::chrono::duration_cast<std::chrono::steady_clock::duration>(
                           std::chrono::duration<double>(*timeout));
    return changed.wait_until(lock, limit, ready);
}

}  // namespace hicache
