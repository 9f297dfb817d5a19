#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <utility>

#include "backends/cuda/cuda_backend.h"
#include "bindings/bindings.h"
#include "core/host_memory.h"

namespace hicache::bindings {
namespace {

nb::dict build_info() {
    nb::dict info;
    info["version"] = HICACHE_VERSION;
    info["debug"] = HostMemory::guarded();
    info["cuda"] = kCudaBackendBuilt;
    info["nanobind"] = HICACHE_NANOBIND_MODE;
    info["compiler"] = __VERSION__;
    return info;
}

}  // namespace
}  // namespace hicache::bindings

NB_MODULE(_core, m) {
    using namespace hicache;
    using namespace hicache::bindings;
    using namespace nb::literals;
    m.doc() = "C++ core of hicache_nsa: formats, host memory, pages, tokens and transfers.";
    // Objects alive at the interpreter's end are no news to a user.
    if (!HostMemory::guarded()) nb::set_leak_warnings(false);
    m.def("build_info", &build_info, nb::sig("def build_info() -> dict[str, str | bool]"),
          "What this build holds: version, debug, cuda, nanobind ('split' or 'linked'), compiler.");
    m.def("cuda_device_index", &cuda_device_index, "device"_a,
          "Index of 'cuda' or 'cuda:<n>'; RuntimeError with CUDA's words if it isn't there.");
    m.def("cuda_device_of_address", &cuda_device_of_address, "address"_a,
          "Index of the GPU that owns the memory at this address.");
    m.def("cuda_device_identity", &cuda_device_identity, "device"_a,
          "Name, unique id, bus and CUDA version of 'cuda' or 'cuda:<n>'.");
    m.def("cuda_device_bus_id", &cuda_device_bus_id, "device"_a,
          "Where 'cuda' or 'cuda:<n>' is on the PCI bus: '0000:1b:00.0'.");
    m.def(
        "measure_cuda_host_alloc",
        [](const std::string& device, int64_t nbytes) {
            nb::gil_scoped_release unlocked;
            const HostAllocSeconds seconds = measure_cuda_host_alloc(device, nbytes);
            return std::pair(seconds.alloc, seconds.free);
        },
        "device"_a, "nbytes"_a,
        "Seconds that cudaHostAlloc and cudaFreeHost take for so many bytes.");
    bind_formats(m);
    bind_memory(m);
    bind_host_file(m);
    bind_allocator(m);
    bind_page_history(m);
    bind_page_index(m);
    bind_tokens(m);
    bind_streams(m);
    bind_link(m);
    bind_timeline(m);
    bind_transfer(m);
    bind_tree(m);
}
