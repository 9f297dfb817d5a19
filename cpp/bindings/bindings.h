// Shared pieces of the Python bindings: array types, and waits that Python can interrupt.
//
// One bind_* function a file. Page-id arrays are taken as they are (int64, contiguous): a silent
// conversion would hide a bug. Results are fresh arrays that own their memory.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/host_memory.h"
#include "core/stream_clock.h"

namespace hicache::bindings {

namespace nb = nanobind;

using PageArray = nb::ndarray<const int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Int64Result = nb::ndarray<nb::numpy, int64_t, nb::ndim<1>>;

[[nodiscard]] inline std::span<const int64_t> items(const PageArray& array) {
    return {array.data(), array.size()};
}

// Hands a vector to Python; with nb::rv_policy::copy the array owns its bytes.
[[nodiscard]] inline Int64Result int64_result(std::vector<int64_t> values) {
    auto* held = new std::vector<int64_t>(std::move(values));
    nb::capsule owner(held, [](void* p) noexcept { delete static_cast<std::vector<int64_t>*>(p); });
    return Int64Result(held->data(), {held->size()}, owner);
}

// What Python holds of a host memory. Unmapping gigabytes takes a while: never with the GIL.
class MemoryHandle {
  public:
    explicit MemoryHandle(HostMemory memory) : memory_(std::move(memory)) {}
    ~MemoryHandle() {
        nb::gil_scoped_release unlocked;
        memory_.reset();
    }
    MemoryHandle(const MemoryHandle&) = delete;
    MemoryHandle& operator=(const MemoryHandle&) = delete;

    [[nodiscard]] const HostMemory& memory() const { return *memory_; }

  private:
    std::optional<HostMemory> memory_;
};

// Waits with the GIL released, in slices, so that signals (^C) are seen. wait_slice(seconds) waits
// up to that long and returns whether the wait is over.
// Throws: nb::python_error if a signal handler raised.
bool wait_interruptibly(Timeout timeout, const std::function<bool(double)>& wait_slice);

void bind_formats(nb::module_& module);
void bind_memory(nb::module_& module);
void bind_host_file(nb::module_& module);
void bind_allocator(nb::module_& module);
void bind_page_history(nb::module_& module);
void bind_page_index(nb::module_& module);
void bind_tokens(nb::module_& module);
void bind_streams(nb::module_& module);
void bind_link(nb::module_& module);
void bind_timeline(nb::module_& module);
void bind_transfer(nb::module_& module);
void bind_tree(nb::module_& module);

}  // namespace hicache::bindings
