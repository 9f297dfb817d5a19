#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "core/host_memory.h"
#include "core/huge_pages.h"

namespace hicache::bindings {
namespace {

using namespace nb::literals;
using ByteView = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>, nb::c_contig>;
using Notes = std::vector<std::pair<bool, std::string>>;

// Errors last.
Notes notes_of(const HostMemory& memory) {
    Notes notes;
    for (auto& [error, text] : memory.take_notes())
        notes.emplace_back(error, std::move(text));
    return notes;
}

void bind_preparation(nb::class_<MemoryHandle>& memory) {
    memory
        .def_prop_ro(
            "ready_bytes", [](const MemoryHandle& self) { return self.memory().ready_bytes(); },
            "The first so many bytes are touched, and registered with every engine there is.")
        .def_prop_ro(
            "registered_bytes",
            [](const MemoryHandle& self) {
                const auto registered = self.memory().registered();
                return std::pair(registered.pinned, registered.pageable);
            },
            "Bytes that are registered with a GPU, and bytes that it refused.")
        .def(
            "take_ready",
            [](const MemoryHandle& self) {
                const nb::gil_scoped_release unlocked;
                const HostMemory& memory = self.memory();
                const bool ended = memory.ended();  // asked first: what it ended at is in the rest
                const int64_t ready = memory.take_ready();
                return std::tuple(ready, ended, notes_of(memory));
            },
            nb::sig("def take_ready(self) -> tuple[int, bool, list[tuple[bool, str]]]"),
            "(ready bytes, whether nothing more will be ready, notes since the last call as (is an "
            "error, text)). The bytes may be in use from now on: an engine that is made later "
            "registers those before it returns.")
        .def(
            "wait_ready",
            [](const MemoryHandle& self, Timeout timeout) {
                return wait_interruptibly(
                    timeout, [&](double seconds) { return self.memory().wait_ready(seconds); });
            },
            "timeout"_a = nb::none(),
            "Waits until all bytes are ready; seconds, False at the limit. RuntimeError if they "
            "never will be.")
        .def(
            "step",
            [](const MemoryHandle& self) {
                nb::gil_scoped_release unlocked;
                self.memory().step();
            },
            "Of memory that is held: makes step_bytes more ready, and waits for them.")
        .def(
            "unhold", [](const MemoryHandle& self) { self.memory().unhold(); },
            "Makes the rest of memory that is held ready.")
        .def(
            "stop",
            [](const MemoryHandle& self) {
                nb::gil_scoped_release unlocked;
                self.memory().stop();
            },
            "Ends the preparation; what is ready stays so. Idempotent.");
}

}  // namespace

void bind_memory(nb::module_& m) {
    nb::class_<MemoryHandle> memory(m, "HostMemory", "The memory of a host pool.");
    memory
        .def(
            "__init__",
            [](MemoryHandle* self, int64_t nbytes, int threads, bool prefault,
               std::string_view huge_pages, int node, int64_t first_bytes, int64_t step_bytes,
               bool held, std::optional<int64_t> most) {
                const PreparationOptions preparation{threads, prefault, first_bytes, step_bytes,
                                                     held};
                const MappingOptions mapping{parse_huge_pages(huge_pages), node, threads, most};
                nb::gil_scoped_release unlocked;
                new (self) MemoryHandle(HostMemory(nbytes, preparation, mapping));
            },
            "nbytes"_a, nb::kw_only(), "threads"_a = 0, "prefault"_a = true,
            "huge_pages"_a = "transparent", "node"_a = -1, "first_bytes"_a = kPrepareAll,
            "step_bytes"_a = kPreparedAtOnce, "held"_a = false, "most"_a = nb::none(),
            "Maps nbytes; several threads (0: one a core) touch them, the first first_bytes before "
            "it returns. MemoryError with the numbers if the mapping fails or is larger than most, "
            "which whoever asked the memory budget gives; without it a mapping that is touched "
            "must fit into available memory.")
        .def_prop_ro("nbytes", [](const MemoryHandle& self) { return self.memory().nbytes(); })
        .def_prop_ro(
            "address",
            [](const MemoryHandle& self) {
                return reinterpret_cast<uintptr_t>(self.memory().data());
            },
            "Address of the first byte; 0 for an empty mapping.")
        .def_prop_ro(
            "huge_pages",
            [](const MemoryHandle& self) {
                return std::string(name(self.memory().bytes().huge_pages()));
            },
            "off, transparent or explicit: what the mapping got.")
        .def_prop_ro(
            "node", [](const MemoryHandle& self) { return self.memory().bytes().node(); },
            "NUMA node that pages are taken from where it has room, -1: none in particular.")
        .def_prop_ro(
            "warning", [](const MemoryHandle& self) { return self.memory().warning(); },
            "What works less well than was asked for; empty if nothing does.")
        .def_prop_ro(
            "guarded", [](const MemoryHandle&) { return HostMemory::guarded(); },
            "Whether guard zones surround the bytes (debug builds).")
        .def(
            "view",
            [](const MemoryHandle& self) {
                const HostMemory& memory = self.memory();
                auto* held = new MemoryHandle(memory);  // shares the mapping
                nb::capsule owner(held,
                                  [](void* p) noexcept { delete static_cast<MemoryHandle*>(p); });
                return ByteView(memory.data(), {static_cast<size_t>(memory.nbytes())}, owner);
            },
            "The bytes as a uint8 array [nbytes] that keeps the mapping alive.")
        .def(
            "check", [](const MemoryHandle& self) { self.memory().check(); },
            "RuntimeError naming the offset if a guard zone was overwritten.");
    bind_preparation(memory);
}

}  // namespace hicache::bindings
