#include "backends/cuda/cuda_call.h"

namespace hicache::cuda {

void require_not_capturing(uintptr_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t asked = cudaStreamIsCapturing(stream_of(stream), &status);
    if (asked == cudaErrorStreamCaptureImplicit || status != cudaStreamCaptureStatusNone) {
        static_cast<void>(cudaGetLastError());
        bad_state(
            "Stream ", stream,
            " is being captured into a CUDA graph; copies are no part of a graph. Call before "
            "or after the capture, or pass another stream.");
    }
    require(asked, "Asking for the state of stream ", stream);
}

}  // namespace hicache::cuda
