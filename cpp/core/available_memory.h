// How much memory a mapping may take whose maker did not ask the memory budget
// (hicache_nsa.memory_budget, which looks at every limit there is).
#pragma once

#include <cstdint>

namespace hicache {

// Bytes that can be used without swapping or running into the control group's limit: the smaller
// of MemAvailable (/proc/meminfo) and memory.max (cgroup v2). Physical memory where the system does
// not say. Asking the kernel for more ends in a killed process, not in an error.
[[nodiscard]] int64_t available_memory();

}  // namespace hicache
