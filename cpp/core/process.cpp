#include "core/process.h"

#include <pthread.h>

#include <atomic>

#include "core/errors.h"

namespace hicache {
namespace {

std::atomic<uint64_t> generation{1};

void on_fork_in_child() {
    generation.fetch_add(1, std::memory_order_relaxed);
}

const int registered = pthread_atfork(nullptr, nullptr, on_fork_in_child);

}  // namespace

uint64_t process_generation() {
    static_cast<void>(registered);
    return generation.load(std::memory_order_relaxed);
}

void ProcessMark::require_same(const char* what) const {
    if (forked()) {
        bad_state("This ", what,
                  " belongs to the process that created it and cannot be used in a "
                  "forked child; create a new one after the fork.");
    }
}

}  // namespace hicache
