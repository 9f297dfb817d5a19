// Functions of the CUDA driver, looked up at run time: the extension does not link it.
#pragma once

#include <cuda.h>

namespace hicache::cuda {

// Throws: std::runtime_error if the driver has none of that name and version.
[[nodiscard]] void* driver_function(const char* name, unsigned version);

// Throws: std::runtime_error "<what> failed: ..." unless the call went well.
void require_driver(CUresult status, const char* what);

}  // namespace hicache::cuda
