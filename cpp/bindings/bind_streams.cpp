#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>

#include "bindings/bindings.h"
#include "core/stream_clock.h"

namespace hicache::bindings {

using namespace nb::literals;

void bind_streams(nb::module_& m) {
    nb::class_<Fence>(m, "Fence", "Everything queued on a stream so far.")
        .def("done", &Fence::done, "Whether all of it is complete.")
        .def(
            "wait",
            [](const Fence& self, Timeout timeout) {
                return wait_interruptibly(timeout, [&](double s) { return self.wait(s); });
            },
            "timeout"_a = nb::none(), "Waits for done(); seconds, False at the limit.");

    nb::class_<StreamClock>(m, "StreamClock", "A stream's clock on the CPU backend.")
        .def(nb::init<>())
        .def("submit", &StreamClock::submit, "Announces work; returns the value to complete later.")
        .def("complete", &StreamClock::complete, "value"_a,
             "All work up to value is complete. ValueError: never submitted, or complete already.")
        .def("fence", &StreamClock::fence, "A fence behind everything submitted so far.");
}

}  // namespace hicache::bindings
