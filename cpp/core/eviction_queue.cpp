#include "core/eviction_queue.h"

#include <array>

#include "core/errors.h"
#include "core/ranked_queue.h"
#include "core/timed_queue.h"

namespace hicache {
namespace {

using Made = std::unique_ptr<EvictionQueue>;

struct Policy {
    std::string_view name;
    Made (*make)(int64_t num_pages);
};

constexpr std::array kPolicies{
    Policy{"lru", [](int64_t n) -> Made { return std::make_unique<TimedQueue>(n, true, true); }},
    Policy{"fifo", [](int64_t n) -> Made { return std::make_unique<TimedQueue>(n, false, true); }},
    Policy{"mru", [](int64_t n) -> Made { return std::make_unique<TimedQueue>(n, true, false); }},
    Policy{"filo", [](int64_t n) -> Made { return std::make_unique<TimedQueue>(n, false, false); }},
    Policy{"lfu", [](int64_t n) -> Made { return std::make_unique<LfuQueue>(n); }},
    Policy{"slru", [](int64_t n) -> Made { return std::make_unique<SlruQueue>(n); }},
    Policy{"priority", [](int64_t n) -> Made { return std::make_unique<PriorityQueue>(n); }},
};

}  // namespace

std::string eviction_policies() {
    std::string names;
    for (const Policy& policy : kPolicies)
        names += (names.empty() ? "" : ", ") + std::string(policy.name);
    return names;
}

std::unique_ptr<EvictionQueue> make_eviction_queue(std::string_view policy, int64_t num_pages) {
    for (const Policy& known : kPolicies) {
        if (known.name == policy) return known.make(num_pages);
    }
    bad_argument("policy '", policy, "' is unknown; known: ", eviction_policies());
}

}  // namespace hicache
