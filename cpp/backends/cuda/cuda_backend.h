// The CUDA backend. In a build without it the stub says so.
#pragma once

#include <memory>
#include <string>

#include "transfer/backend.h"

namespace hicache {

extern const bool kCudaBackendBuilt;

// device: "cuda" or "cuda:<index>". Throws: std::runtime_error if it cannot be had.
[[nodiscard]] std::unique_ptr<Backend> create_cuda_backend(const std::string& device,
                                                           BackendSetup setup);

}  // namespace hicache
