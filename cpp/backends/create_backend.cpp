#include <utility>

#include "backends/cpu/cpu_backend.h"
#include "backends/cuda/cuda_backend.h"
#include "core/errors.h"
#include "transfer/backend.h"

namespace hicache {

std::unique_ptr<Backend> create_backend(const std::string& device, BackendSetup setup) {
    if (device == "cpu") return std::make_unique<CpuBackend>(std::move(setup));
    if (device == "cuda" || device.starts_with("cuda:")) {
        return create_cuda_backend(device, std::move(setup));
    }
    bad_state("There is no backend for device '", device, "'; this build has 'cpu'",
              kCudaBackendBuilt ? " and 'cuda'." : ".");
}

}  // namespace hicache
