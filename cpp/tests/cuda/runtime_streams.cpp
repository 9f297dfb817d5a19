// The stand-in's calls about streams, events and copies: see stand_in.h.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <list>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "tests/cuda/registered_memory.h"
#include "tests/cuda/runtime_errors.h"
#include "tests/cuda/stream_threads.h"

using namespace hicache::testing_support;

namespace {

// One operation may touch it all. Memory that is not registered may be of the device.
bool one_piece(const void* begin, size_t bytes) {
    return RegisteredMemory::all().crosses_no_border(begin, bytes);
}

bool registered(const void* address) {
    return RegisteredMemory::all().around(address).has_value();
}

// Kept to the end of the process: a stream may look at a mark when its event is gone.
cudaEvent_t new_event(bool timed) {
    static auto* const mutex = new std::mutex;
    static auto* const events = new std::list<CUevent_st>;
    std::lock_guard lock(*mutex);
    return &events->emplace_back(timed);
}

// Of a copy whose host side is not registered the caller sees the end.
void queue_copy(cudaStream_t stream, const void* host, std::function<void()> copy) {
    stream->queue(std::move(copy));
    if (!registered(host)) cudaStreamSynchronize(stream);
}

}  // namespace

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned /*flags*/) {
    *stream = new CUstream_st;
    return cudaSuccess;
}
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
    return cudaStreamCreateWithFlags(stream, flags);
}
cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
    *lowest = 0;
    *highest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    stream->end();
    return cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return with_error(stream->idle() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    Mark* const mark = new_event(false)->mark();
    stream->queue([mark] { mark->reach(); });
    mark->wait();
    return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t /*stream*/, cudaStreamCaptureStatus* status) {
    *status = cudaStreamCaptureStatusNone;
    return cudaSuccess;
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* /*mode*/) {
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    *event = new_event((flags & cudaEventDisableTiming) == 0);
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t /*event*/) {
    return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    if (queueing_fails()) return with_error(cudaErrorInvalidValue);
    stream->queue([mark = event->mark()] { mark->reach(); });
    return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
    const Mark* const mark = event->latest();
    const bool complete = mark == nullptr || mark->reached.load(std::memory_order_acquire);
    return with_error(complete ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (const Mark* const mark = event->latest()) mark->wait();
    return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    const Mark* const from = begin->latest();
    const Mark* const to = end->latest();
    if (from == nullptr || to == nullptr) return with_error(cudaErrorInvalidResourceHandle);
    if (!begin->timed() || !end->timed()) return with_error(cudaErrorInvalidResourceHandle);
    if (!from->reached.load(std::memory_order_acquire) ||
        !to->reached.load(std::memory_order_acquire)) {
        std::fputs("cudaEventElapsedTime of an event that is not complete\n", stderr);
        std::abort();  // compute-sanitizer reports that: it must be asked for first
    }
    const std::chrono::duration<float, std::milli> taken = to->when - from->when;
    *milliseconds = taken.count();
    return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned /*flags*/) {
    if (queueing_fails()) return with_error(cudaErrorInvalidValue);
    if (const Mark* const mark = event->latest()) stream->queue([mark] { mark->wait(); });
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    if (queueing_fails() || !one_piece(to, bytes) || !one_piece(from, bytes)) {
        return with_error(cudaErrorInvalidValue);
    }
    queue_copy(stream, kind == cudaMemcpyHostToDevice ? from : to,
               [=] { std::memcpy(to, from, bytes); });
    return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t rows, cudaMemcpyKind kind, cudaStream_t stream) {
    const bool loads = kind == cudaMemcpyHostToDevice;
    const void* const host = loads ? from : to;
    const size_t host_bytes = (rows - 1) * (loads ? from_pitch : to_pitch) + width;
    if (queueing_fails() || width > to_pitch || width > from_pitch ||
        !one_piece(host, host_bytes)) {
        return with_error(cudaErrorInvalidValue);
    }
    queue_copy(stream, host, [=] {
        for (size_t row = 0; row < rows; ++row) {
            std::memcpy(static_cast<std::byte*>(to) + row * to_pitch,
                        static_cast<const std::byte*>(from) + row * from_pitch, width);
        }
    });
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
// The pieces of a batch have no order: here they run in a random one.
cudaError_t cudaMemcpyBatchAsync(void* const* to, const void* const* from, const size_t* bytes,
                                 size_t count, cudaMemcpyAttributes* /*attributes*/,
                                 size_t* /*first_of_attributes*/, size_t /*attribute_count*/,
                                 cudaStream_t stream) {
    struct Piece {
        void* to;
        const void* from;
        size_t bytes;
    };
    if (queueing_fails()) return with_error(cudaErrorInvalidValue);
    std::vector<Piece> pieces;
    for (size_t i = 0; i < count; ++i) {
        if (bytes[i] == 0 || !one_piece(to[i], bytes[i]) || !one_piece(from[i], bytes[i]) ||
            !(registered(to[i]) || registered(from[i]))) {
            return with_error(cudaErrorInvalidValue);
        }
        pieces.push_back({to[i], from[i], bytes[i]});
    }
    std::shuffle(pieces.begin(), pieces.end(), std::minstd_rand(static_cast<unsigned>(count)));
    stream->queue([pieces] {
        for (const Piece& piece : pieces)
            std::memcpy(piece.to, piece.from, piece.bytes);
    });
    return cudaSuccess;
}
#endif
