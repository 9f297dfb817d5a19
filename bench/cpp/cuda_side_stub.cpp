#include "core/errors.h"
#include "device_side.h"

namespace hicache::bench {

std::unique_ptr<DeviceSide> create_cuda_side() {
    bad_state(
        "This build has no CUDA backend. Put nvcc on PATH and build again with "
        "-DHICACHE_CUDA=ON, or use --device=cpu.");
}

}  // namespace hicache::bench
