// One way of moving a copy's bytes. A way is one class; the backend picks one for each copy.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "backends/cuda/layer_gate.h"
#include "transfer/copy_job.h"

namespace hicache::cuda {

// The stream waits for those of the order's fences that are events of the device.
// Throws: std::runtime_error if CUDA refuses.
void order_after_fences(const CopyOrder& order, cudaStream_t stream);

class CopyWay {
  public:
    virtual ~CopyWay() = default;

    // Queues every byte of the copy, behind what is queued on the stream, in the order of its
    // layers, and calls gate.layers_queued() behind each group of `group_layers` or fewer. Device
    // pages are touched on that stream only; streams of the way's own wait for the order's fences
    // before they read host pages. May block while the device's queue is full. held: set to what
    // has to live until the copy has ended, also if it fails. Requires: the stream waits for the
    // fences; the device is current; one thread at a time. Throws: std::runtime_error if CUDA
    // refuses; some bytes may be queued then.
    virtual void queue(const CopyOrder& order, int group_layers, cudaStream_t stream,
                       LayerGate& gate, std::shared_ptr<void>& held) = 0;

    // What is queued on the stream from now on runs behind everything the way has queued on streams
    // of its own, and the other way round. Requires and throws: as queue().
    virtual void join(cudaStream_t) {}
};

}  // namespace hicache::cuda
