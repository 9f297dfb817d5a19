// Calls of the CUDA runtime: errors as exceptions, the calling thread's device and capture mode.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "core/errors.h"

namespace hicache::cuda {

// Clears the thread's last error, so that no unrelated later call reports it.
// Throws: std::runtime_error "<what> failed: <text> (<name>)" unless the call went well.
template <typename... What>
void require(cudaError_t status, const What&... what) {
    if (status == cudaSuccess) return;
    static_cast<void>(cudaGetLastError());
    bad_state(what..., " failed: ", cudaGetErrorString(status), " (", cudaGetErrorName(status),
              ").");
}

// The same for calls whose failure changes nothing: clears the error and goes on.
inline bool accept(cudaError_t status) {
    if (status == cudaSuccess) return true;
    static_cast<void>(cudaGetLastError());
    return false;
}

// While it lives, what the thread does is no part of a graph that some stream is being captured
// into and does not spoil one either. Never throws: for destructors too.
class OutsideCapture {
  public:
    OutsideCapture() noexcept { swap_mode(); }
    ~OutsideCapture() { swap_mode(); }
    OutsideCapture(const OutsideCapture&) = delete;
    OutsideCapture& operator=(const OutsideCapture&) = delete;

  private:
    void swap_mode() noexcept {
        static_cast<void>(accept(cudaThreadExchangeStreamCaptureMode(&mode_)));
    }

    cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

// The same, and the thread works on `device`. Its own device is current again afterwards.
class DeviceScope {
  public:
    explicit DeviceScope(int device) {
        require(cudaGetDevice(&previous_), "cudaGetDevice");
        if (previous_ != device) {
            require(cudaSetDevice(device), "cudaSetDevice(", device, ")");
            changed_ = true;
        }
    }
    ~DeviceScope() {
        if (changed_) static_cast<void>(accept(cudaSetDevice(previous_)));
    }
    DeviceScope(const DeviceScope&) = delete;
    DeviceScope& operator=(const DeviceScope&) = delete;

  private:
    const OutsideCapture outside_;
    int previous_ = 0;
    bool changed_ = false;
};

[[nodiscard]] inline cudaStream_t stream_of(uintptr_t handle) {
    return reinterpret_cast<cudaStream_t>(handle);
}

// Throws: std::runtime_error if the stream is being captured into a graph (the capture goes on
// undisturbed), or is no stream of the current device.
void require_not_capturing(uintptr_t stream);

}  // namespace hicache::cuda
