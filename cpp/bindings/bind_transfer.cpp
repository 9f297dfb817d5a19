#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/bindings.h"
#include "transfer/transfer_engine.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;
using Layers = std::optional<std::vector<int>>;

// Joining threads can take as long as a copy: never with the GIL.
struct EngineHandle {
    std::unique_ptr<TransferEngine> engine;

    ~EngineHandle() {
        nb::gil_scoped_release unlocked;
        engine.reset();
    }
};

// Of each direction: counters, how many copies by their seconds, and the sum of these.
nb::dict totals_of(const EngineHandle& self) {
    nb::dict by_direction;
    for (const Direction direction : kDirections) {
        const TransferTotals totals = self.engine->totals(direction);
        nb::dict each;
        each["submitted"] = totals.submitted;
        each["copies"] = totals.copies;
        each["failed"] = totals.failed;
        each["pages"] = totals.pages;
        each["bytes"] = totals.bytes;
        each["verified"] = totals.verified;
        each["corrupt"] = totals.corrupt;
        each["runs"] = totals.runs;
        each["exposed_waits"] = totals.exposed_waits;
        each["exposed_wait_ns"] = totals.exposed_wait_ns;
        for (const Way way : kAllWays)
            each[nb::str(name(way).data())] = totals.by_way[static_cast<size_t>(way)];
        const auto& counts = totals.seconds_counts;
        by_direction[nb::str(name(direction).data())] =
            nb::make_tuple(each, std::vector(counts.begin(), counts.end()), totals.seconds);
    }
    return by_direction;
}

Ticket submit(EngineHandle& self, std::string_view direction, const PageArray& host_pages,
              const PageArray& device_pages, const Layers& layers, std::vector<FencePtr> after,
              std::optional<bool> layerwise, std::optional<bool> beside_compute) {
    const Direction parsed = parse_direction(direction);
    // Copied under the GIL: another thread may change the arrays afterwards.
    const std::vector<int64_t> host(items(host_pages).begin(), items(host_pages).end());
    const std::vector<int64_t> device(items(device_pages).begin(), items(device_pages).end());
    nb::gil_scoped_release unlocked;
    return self.engine->submit(parsed, host, device, layers, std::move(after),
                               {layerwise, beside_compute});
}

void bind_ticket(nb::module_& m) {
    nb::class_<Ticket>(m, "Ticket", "The handle of a submitted copy.")
        .def("done", &Ticket::done, "Whether the copy has ended, well or not.")
        .def_prop_ro("error", &Ticket::error,
                     "Why it failed; None while in flight or if it did not.")
        .def(
            "wait",
            [](const Ticket& self, Timeout timeout) {
                return wait_interruptibly(timeout, [&](double s) { return self.wait(s); });
            },
            "timeout"_a = nb::none(),
            "Waits for the end; seconds, False at the limit. Does not raise for a failed copy.")
        .def(
            "wait_layer",
            [](const Ticket& self, int layer, Timeout timeout) {
                bool goes_on = false;
                return wait_interruptibly(timeout, [&](double s) {
                    return self.wait_layer(layer, s, std::exchange(goes_on, true));
                });
            },
            "layer"_a, "timeout"_a = nb::none(),
            "Waits until that layer has landed or the copy has failed; False at the limit.")
        .def(
            "wait_layer_on_stream",
            [](const Ticket& self, int layer, uintptr_t stream) {
                nb::gil_scoped_release unlocked;
                self.wait_layer_on_stream(layer, stream);
            },
            "layer"_a, "stream"_a,
            "Makes that stream of the device wait for the layer; the caller does not wait.")
        .def("layer_done", &Ticket::layer_done, "layer"_a,
             "Whether that layer's bytes are in place; False for a layer of a failed copy.")
        .def_prop_ro("pages", &Ticket::pages, "Pages asked for.")
        .def_prop_ro("nbytes", &Ticket::nbytes, "Bytes asked for.")
        .def_prop_ro("pages_copied", &Ticket::pages_copied,
                     "The first so many pairs were copied whole; 0 until done.")
        .def_prop_ro(
            "corrupt", [](const Ticket& self) { return int64_result(self.corrupt()); },
            nb::rv_policy::copy, nb::sig("def corrupt(self) -> numpy.typing.NDArray[numpy.int64]"),
            "Indices of the pages that are not what was saved, ascending; empty until done.")
        .def_prop_ro("seconds", &Ticket::seconds, "Time spent copying; 0 until done.");
}

void bind_engine(nb::module_& m) {
    nb::class_<EngineHandle>(m, "TransferEngine", "Moves pages between a device and a host pool.")
        .def(
            "__init__",
            [](EngineHandle* self, const PoolFormat& format, const std::string& device,
               int64_t device_pages, const std::vector<DeviceBuffer>& device_buffers,
               const MemoryHandle& host, const HostLayout& layout, int workers,
               std::string_view io_backend, int kernel_blocks, std::string_view pinning,
               int64_t pin_chunk_bytes, int64_t staging_bytes,
               const std::optional<LinkCurve>& link_curve, std::string_view verify,
               std::shared_ptr<DigestTable> digests, bool time_waits) {
                CopyOptions options{workers,         parse_way(io_backend),
                                    kernel_blocks,   parse_pinning(pinning),
                                    pin_chunk_bytes, staging_bytes};
                if (link_curve) options.link_curve = std::make_shared<const LinkCurve>(*link_curve);
                options.verify = parse_verify(verify);
                options.digests = std::move(digests);
                options.time_waits = time_waits;
                nb::gil_scoped_release unlocked;  // pinning takes a while
                new (self) EngineHandle{std::make_unique<TransferEngine>(
                    format, device, device_pages, device_buffers, host.memory(), layout, options)};
            },
            "format"_a, "device"_a, "device_pages"_a, "device_buffers"_a, "host"_a, "layout"_a,
            "workers"_a = 0, "io_backend"_a = "auto", "kernel_blocks"_a = 0, "pinning"_a = "auto",
            "pin_chunk_bytes"_a = 0, "staging_bytes"_a = 0, "link_curve"_a = nb::none(),
            "verify"_a = "off", "digests"_a = nb::none(), "time_waits"_a = true,
            "device_buffers: for each buffer of the format, for each of its layers; whoever owns "
            "that memory keeps it alive until close(). 0 = chosen: workers (host threads a "
            "direction, "
            "cpu), kernel_blocks, pin_chunk_bytes and staging_bytes a direction (cuda). pinning: "
            "auto, always or never. verify: off, sample or all; digests: of the host pool. "
            "time_waits: count exposed waits.")
        .def("submit", &submit, "direction"_a, "host_pages"_a.noconvert(),
             "device_pages"_a.noconvert(), "layers"_a = nb::none(),
             "after"_a = std::vector<FencePtr>(), "layerwise"_a = nb::none(),
             "beside_compute"_a = nb::none(),
             nb::sig("def submit(self, direction: str, "
                     "host_pages: numpy.typing.NDArray[numpy.int64], "
                     "device_pages: numpy.typing.NDArray[numpy.int64], "
                     "layers: collections.abc.Sequence[int] | None = None, "
                     "after: collections.abc.Sequence[Fence] = (), layerwise: bool | None = None, "
                     "beside_compute: bool | None = None) -> Ticket"),
             "Queues copies host_pages[i] <-> device_pages[i]; never waits for bytes. ValueError "
             "before any byte moves.")
        .def(
            "record",
            [](EngineHandle& self, uintptr_t stream) {
                nb::gil_scoped_release unlocked;
                return self.engine->record(stream);
            },
            "stream"_a, nb::sig("def record(self, stream: int) -> Fence | None"),
            "A fence behind what is queued on that stream of the device; None if it is complete.")
        .def_prop_ro(
            "timeline", [](const EngineHandle& self) { return self.engine->timeline(); },
            "Its copies and the waits for them, once started. Lives on after close().")
        .def_prop_ro(
            "warning", [](const EngineHandle& self) { return self.engine->warning(); },
            "What works less well than it could; empty if nothing does.")
        .def(
            "hold",
            [](EngineHandle& self, std::string_view d) { self.engine->hold(parse_direction(d)); },
            "direction"_a, "While held, copies that have not started stay in flight. Counted.")
        .def(
            "release",
            [](EngineHandle& self, std::string_view d) {
                self.engine->release(parse_direction(d));
            },
            "direction"_a)
        .def(
            "fail_next",
            [](EngineHandle& self, std::string_view d, int64_t after_pages) {
                self.engine->fail_next(parse_direction(d), after_pages);
            },
            "direction"_a, "after_pages"_a = 0,
            "The next copy in that direction copies its first after_pages pairs, then fails.")
        .def(
            "in_flight",
            [](const EngineHandle& self, std::string_view d) {
                return self.engine->in_flight(parse_direction(d));
            },
            "direction"_a, "Copies submitted and not ended.")
        .def("totals", &totals_of,
             nb::sig("def totals(self) -> dict[str, tuple[dict[str, int], list[int], float]]"),
             "By direction, of one moment. Counters: submitted, copies, failed, pages, bytes, "
             "verified, corrupt, runs, copies by way of a GPU (direct, kernel, staged), "
             "exposed_waits and exposed_wait_ns. Copies that ended by their seconds, in the ranges "
             "of copy_seconds_bounds(); the sum of these seconds. They never fall.")
        .def(
            "check", [](const EngineHandle& self) { self.engine->check(); },
            "RuntimeError with both sides of an equation that does not hold.")
        .def(
            "close",
            [](EngineHandle& self, double fence_timeout) {
                nb::gil_scoped_release unlocked;
                self.engine->close(fence_timeout);
            },
            "fence_timeout"_a = 5.0,
            "Opens the gates, finishes the copies, ends the threads. Copies whose fences do not "
            "complete within fence_timeout seconds fail. Idempotent.");
}

}  // namespace

void bind_transfer(nb::module_& m) {
    nb::class_<DeviceBuffer>(m, "DeviceBuffer", "One (buffer, layer) of a device pool.")
        .def(
            "__init__",
            [](DeviceBuffer* self, uint64_t address, int64_t page_stride, int64_t rows,
               int64_t row_bytes, int64_t row_stride) {
                const DeviceBuffer buffer{address, page_stride, rows, row_bytes, row_stride};
                buffer.check_shape();
                new (self) DeviceBuffer(buffer);
            },
            "address"_a, "page_stride"_a, "rows"_a, "row_bytes"_a, "row_stride"_a,
            "Row r of page p lies at address + p * page_stride + r * row_stride; all in bytes.")
        .def_ro("address", &DeviceBuffer::address)
        .def_ro("page_stride", &DeviceBuffer::page_stride)
        .def_ro("rows", &DeviceBuffer::rows)
        .def_ro("row_bytes", &DeviceBuffer::row_bytes)
        .def_ro("row_stride", &DeviceBuffer::row_stride);
    bind_ticket(m);
    bind_engine(m);
    m.def(
        "copy_seconds_bounds",
        [] {
            return nb::tuple(
                nb::cast(std::vector(kCopySecondsBounds.begin(), kCopySecondsBounds.end())));
        },
        nb::sig("def copy_seconds_bounds() -> tuple[float, ...]"),
        "Upper bounds of the ranges of TransferEngine.totals(), in seconds; one more is above "
        "all.");
}

}  // namespace hicache::bindings
