// Which process somebody was, in a form that outlives it: process ids are given again.
#pragma once

#include <cstdint>

namespace hicache {

struct ProcessId {
    uint64_t pid = 0;            // 0: nobody
    uint64_t start = 0;          // clock ticks since the system started; 0: not known
    uint64_t pid_namespace = 0;  // in which `pid` means something; 0: not known
};

[[nodiscard]] ProcessId this_process();

enum class Presence { kGone, kThere, kUnknown };

// kThere while one of its threads can still run or is being torn down, with what that holds. kGone
// also for a zombie, which holds nothing any more. kUnknown: it lived in another pid namespace.
[[nodiscard]] Presence presence_of(const ProcessId& process);

}  // namespace hicache
