#include "backends/cuda/cuda_backend.h"
#include "core/errors.h"

namespace hicache {

const bool kCudaBackendBuilt = false;

std::unique_ptr<Backend> create_cuda_backend(const std::string& device, BackendSetup) {
    bad_state("Device '", device,
              "' needs the CUDA backend, and this build of hicache-nsa has none "
              "(build_info() says what a build holds). Use device='cpu'.");
}

}  // namespace hicache
