// How calls of the stand-in fail: see stand_in.h.
#pragma once

#include <cuda_runtime_api.h>

namespace hicache::testing_support {

// Keeps an error as the thread's last one. Returns the status.
cudaError_t with_error(cudaError_t status);

}  // namespace hicache::testing_support
