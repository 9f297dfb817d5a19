#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <string_view>
#include <utility>

#include "bindings/bindings.h"
#include "core/errors.h"
#include "core/nvtx_range.h"
#include "core/timeline.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;

// The beginning of a call, for end_call(); 0 where the timeline is off.
int64_t begin_call(const Timeline& self, const char* name) {
    if (nvtx::attached()) nvtx::push(name, -1);
    return self.on() ? steady_nanoseconds() : 0;
}

void end_call(Timeline& self, std::string_view track, const char* name, int64_t begin) {
    if (nvtx::attached()) nvtx::pop();  // first: what follows may throw
    if (begin > 0 && self.on()) {
        TimelineSpan span;
        span.track = parse_track(track);
        span.begin = begin;
        span.end = steady_nanoseconds();
        span.thread = current_thread();
        span.text = name;
        self.record(std::move(span));
    }
}

void add(Timeline& self, std::string_view track, const char* name, int64_t begin, int64_t end) {
    TimelineSpan span;
    span.track = parse_track(track);
    span.begin = begin;
    span.end = end;
    span.text = name;
    self.record(std::move(span));
}

// Nanoseconds a call of what copies do: asking whether it is on, a record, an NVTX range.
nb::dict measure_timeline(int64_t times) {
    if (times < 1) bad_argument("times is ", times, "; it must be 1 or more.");
    const auto a_call = [times](const auto& call) {
        const int64_t begin = steady_nanoseconds();
        for (int64_t i = 0; i < times; ++i)
            call();
        return static_cast<double>(steady_nanoseconds() - begin) / static_cast<double>(times);
    };
    Timeline timeline;
    int64_t on = 0;
    const auto ask = [&] { on += timeline.on() ? 1 : 0; };
    const auto record = [&] {
        TimelineSpan span;
        span.begin = steady_nanoseconds();
        span.end = steady_nanoseconds();
        timeline.record(std::move(span));
    };
    nb::dict found;
    found["on_when_off"] = a_call(ask);
    timeline.start(1024);
    a_call(record);  // the ring is full and its memory there
    found["record_and_two_clocks"] = a_call(record);
    found["two_clocks"] = a_call([&] { on += steady_nanoseconds() + steady_nanoseconds(); });
    found["nvtx_range"] = a_call([] { const NvtxRange range("measured"); });
    if (on == 0) bad_state("The clock stands still.");
    return found;
}

}  // namespace

void bind_timeline(nb::module_& m) {
    m.def("measure_timeline", &measure_timeline, "times"_a,
          nb::sig("def measure_timeline(times: int) -> dict[str, float]"),
          "Nanoseconds of the parts of a record, the mean of so many calls.");
    m.def("nvtx_attached", &nvtx::attached, "Whether a profiler asked for NVTX ranges.");

    nb::class_<TimelineSpan>(m, "TimelineSpan",
                             "A named piece of time on a track. Times are nanoseconds of the "
                             "monotonic clock; numbers are -1 where they say nothing.")
        .def_prop_ro("track", [](const TimelineSpan& self) { return name(self.track); })
        .def_prop_ro(
            "kind", [](const TimelineSpan& self) { return name(self.kind); },
            "call, queued, copy, layers or wait.")
        .def_ro("seen_by_host", &TimelineSpan::seen_by_host,
                "The times are those at which a thread of the host saw what a device had done.")
        .def_ro("begin", &TimelineSpan::begin)
        .def_ro("end", &TimelineSpan::end)
        .def_ro("thread", &TimelineSpan::thread, "The system's number of the thread.")
        .def_ro("stream", &TimelineSpan::stream, "Handle of the stream, of a stream's wait.")
        .def_ro("copy", &TimelineSpan::copy, "Number of the copy in its direction, from 1.")
        .def_ro("first_layer", &TimelineSpan::first_layer)
        .def_ro("last_layer", &TimelineSpan::last_layer)
        .def_ro("pages", &TimelineSpan::pages)
        .def_ro("bytes", &TimelineSpan::bytes)
        .def_prop_ro(
            "way", [](const TimelineSpan& self) { return self.way; },
            "direct, kernel or staged; empty on a CPU.")
        .def_ro("text", &TimelineSpan::text, "Name of a call; why a copy failed, else empty.");

    nb::class_<Timeline>(m, "Timeline", "A bounded ring of spans; off until it is started.")
        .def(nb::init<>())
        .def_prop_ro("on", &Timeline::on, "Whether spans are recorded.")
        .def("start", &Timeline::start, "capacity"_a,
             "Forgets what was recorded and records from now on, the last `capacity` spans.")
        .def("stop", &Timeline::stop, "Records no more; what was recorded stays.")
        .def("begin_call", &begin_call, "name"_a,
             "Opens an NVTX range, and returns now in nanoseconds; 0 while nothing is recorded.")
        .def("end_call", &end_call, "track"_a, "name"_a, "begin"_a,
             "Records what began there, and closes the range. In the thread that began it.")
        .def("add", &add, "track"_a, "name"_a, "begin"_a, "end"_a,
             "Records a span that was measured elsewhere, in nanoseconds of the monotonic clock.")
        .def("spans", &Timeline::spans, "What is there, in the order it was recorded.")
        .def_prop_ro("dropped", &Timeline::dropped, "Spans that newer ones took the place of.");
}

}  // namespace hicache::bindings
