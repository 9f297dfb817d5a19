#include "backends/cuda/cuda_backend.h"
#include "core/errors.h"

namespace hicache {
namespace {

[[noreturn]] void refuse(const std::string& what) {
    bad_state(what,
              ": this build of hicache-nsa has no CUDA backend (build_info() says what a build "
              "holds). Use device='cpu'.");
}

}  // namespace

const bool kCudaBackendBuilt = false;

std::unique_ptr<Backend> create_cuda_backend(const std::string& device, BackendSetup) {
    refuse(message("Device '", device, "'"));
}

int cuda_device_index(const std::string& device) {
    refuse(message("Device '", device, "'"));
}

int cuda_device_of_address(uint64_t address) {
    refuse(message("Memory at ", address));
}

std::string cuda_device_bus_id(const std::string& device) {
    refuse(message("Device '", device, "'"));
}

std::string cuda_device_identity(const std::string& device) {
    refuse(message("Device '", device, "'"));
}

LinkCurve measure_cuda_link(const std::string& device) {
    refuse(message("Device '", device, "'"));
}

HostAllocSeconds measure_cuda_host_alloc(const std::string& device, int64_t) {
    refuse(message("Device '", device, "'"));
}

}  // namespace hicache
