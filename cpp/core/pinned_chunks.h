// Host memory registered with a device, chunk by chunk: one call over hundreds of GiB is reported
// to fail, and holds up other threads for as long as it takes.
//
// Knows no CUDA: what registers and unregisters is passed in. One thread at a time calls pin_next()
// and unpin_all(); everybody may ask meanwhile.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hicache {

enum class PinResult { kPinned, kAlready, kRefused };

struct Registrar {
    // Sets the text if refused.
    // May throw: then nothing of the chunk stays registered.
    std::function<PinResult(std::byte* begin, int64_t bytes, std::string& text)> pin;
    std::function<void(std::byte* begin, int64_t bytes)> unpin;
};

class PinnedChunks {
  public:
    // required: a chunk that is refused is an error, else it stays pageable.
    // Requires: chunk_bytes > 0.
    PinnedChunks(std::byte* begin, int64_t bytes, int64_t chunk_bytes, Registrar registrar,
                 bool required);
    ~PinnedChunks();  // as unpin_all()
    PinnedChunks(const PinnedChunks&) = delete;
    PinnedChunks& operator=(const PinnedChunks&) = delete;

    [[nodiscard]] int64_t nbytes() const { return bytes_; }
    [[nodiscard]] int64_t chunk_bytes() const { return chunk_bytes_; }

    // The chunks before that offset have been registered or refused.
    [[nodiscard]] int64_t done_bytes() const { return done_.load(std::memory_order_acquire); }
    // Where the next chunk ends; nbytes() once all are done.
    [[nodiscard]] int64_t next_end() const;
    // Registers the next chunk. One that somebody else has registered is used and left alone.
    // Requires: done_bytes() < nbytes(). Throws: std::runtime_error with pointer, size and reason
    // if it is refused and required, and what the registrar throws; then no chunk is done.
    void pin_next();

    // Whether all of [offset, offset + bytes) is registered.
    [[nodiscard]] bool pinned(int64_t offset, int64_t bytes) const;
    [[nodiscard]] int64_t pinned_bytes() const {
        return pinned_bytes_.load(std::memory_order_acquire);
    }
    [[nodiscard]] int64_t pageable_bytes() const {
        return pageable_bytes_.load(std::memory_order_relaxed);
    }
    // Why the first chunk that was refused was.
    [[nodiscard]] std::optional<std::string> refusal() const;

    // Gives every chunk back, last first. Idempotent. pinned() is false from then on.
    void unpin_all();

  private:
    enum State : uint8_t { kOpen, kPageable, kPinned };

    [[nodiscard]] int64_t num_chunks() const { return (bytes_ + chunk_bytes_ - 1) / chunk_bytes_; }
    [[nodiscard]] std::string refused(int64_t chunk, int64_t size, const std::string& text) const;

    std::byte* const begin_;
    const int64_t bytes_;
    const int64_t chunk_bytes_;
    const Registrar registrar_;
    const bool required_;
    std::vector<std::atomic<uint8_t>> states_;
    std::atomic<int64_t> done_{0};
    std::atomic<int64_t> pinned_bytes_{0};
    std::atomic<int64_t> pageable_bytes_{0};
    std::vector<std::pair<std::byte*, int64_t>> ours_;
    mutable std::mutex mutex_;  // guards refusal_
    std::optional<std::string> refusal_;
};

}  // namespace hicache
