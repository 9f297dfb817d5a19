#include <nanobind/stl/optional.h>

#include "bindings/bindings.h"
#include "core/host_memory.h"

namespace hicache::bindings {

using namespace nb::literals;
using ByteView = nb::ndarray<nb::numpy, uint8_t, nb::ndim<1>, nb::c_contig>;

void bind_memory(nb::module_& m) {
    nb::class_<MemoryHandle>(m, "HostMemory", "One anonymous mapping that holds a host pool.")
        .def(
            "__init__",
            [](MemoryHandle* self, int64_t nbytes, int threads, bool prefault,
               std::optional<int64_t> most) {
                nb::gil_scoped_release unlocked;
                new (self) MemoryHandle(HostMemory(nbytes, threads, prefault, most));
            },
            "nbytes"_a, nb::kw_only(), "threads"_a = 0, "prefault"_a = true, "most"_a = nb::none(),
            "Maps nbytes and touches them with several threads (0: one a core). MemoryError with "
            "the numbers if the mapping fails or is larger than most, which whoever asked the "
            "memory budget gives; without it a touched mapping must fit into available memory.")
        .def_prop_ro("nbytes", [](const MemoryHandle& self) { return self.memory().nbytes(); })
        .def_prop_ro(
            "address",
            [](const MemoryHandle& self) {
                return reinterpret_cast<uintptr_t>(self.memory().data());
            },
            "Address of the first byte; 0 for an empty mapping.")
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
}

}  // namespace hicache::bindings
