// Host memory registered with a device, chunk by chunk: one call over hundreds of GiB is reported
// to fail.
//
// Knows no CUDA: what registers and unregisters is passed in. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace hicache {

enum class PinResult { kPinned, kAlready, kRefused };

struct Registrar {
    // Sets the text if refused.
    // May throw: then nothing stays registered.
    std::function<PinResult(std::byte* begin, int64_t bytes, std::string& text)> pin;
    std::function<void(std::byte* begin, int64_t bytes)> unpin;
};

class PinnedRegions {
  public:
    // Registers [begin, begin + bytes) in chunks, all of it or nothing: after a refusal the chunks
    // before it are given back, last first, and refusal() says why. A chunk that somebody else has
    // registered is used and left alone. Requires: chunk_bytes > 0.
    PinnedRegions(std::byte* begin, int64_t bytes, int64_t chunk_bytes, Registrar registrar);
    ~PinnedRegions();
    PinnedRegions(const PinnedRegions&) = delete;
    PinnedRegions& operator=(const PinnedRegions&) = delete;

    [[nodiscard]] bool pinned() const { return !refusal_; }
    [[nodiscard]] const std::optional<std::string>& refusal() const { return refusal_; }

  private:
    void unpin_all();

    const Registrar registrar_;
    std::vector<std::pair<std::byte*, int64_t>> ours_;
    std::optional<std::string> refusal_;
};

}  // namespace hicache
