// Stream memory operations of the driver, looked up at run time: the extension does not link it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace hicache::cuda {

// What is queued on the stream afterwards waits until the word has reached the value, in the sense
// of int32(word - value) >= 0. Throws: std::runtime_error if the driver refuses.
void queue_wait(cudaStream_t stream, uint64_t address, uint32_t value);

// Once all that is queued on the stream before is complete and visible, the word becomes the value.
// Throws: std::runtime_error if the driver refuses.
void queue_write(cudaStream_t stream, uint64_t address, uint32_t value);

}  // namespace hicache::cuda
