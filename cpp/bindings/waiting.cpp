#include <algorithm>
#include <chrono>

#include "bindings/bindings.h"

namespace hicache::bindings {

bool wait_interruptibly(Timeout timeout, const std::function<bool(double)>& wait_slice) {
    using Clock = std::chrono::steady_clock;
    constexpr double kSlice = 0.1;  // seconds
    const auto started = Clock::now();
    for (;;) {
        const double waited = std::chrono::duration<double>(Clock::now() - started).count();
        const double slice = timeout ? std::min(kSlice, *timeout - waited) : kSlice;
        bool over;
        {
            nb::gil_scoped_release unlocked;
            over = wait_slice(slice);
        }
        if (over) return true;
        if (timeout && !(slice == kSlice)) return false;
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
}

}  // namespace hicache::bindings
