// What the engines of this process have registered with CUDA: those of one host pool share it.
//
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/pinned_chunks.h"

namespace hicache::cuda {

class Registrations {
  public:
    static Registrations& all();

    // Bytes of the chunk in which an engine has pinned memory from there on; nullopt if none has.
    [[nodiscard]] std::optional<int64_t> chunk_at(std::byte* begin);

    // Registers a chunk, or counts one more user of it. Leaves no error with CUDA. Requires: the
    // device is current. Throws: std::runtime_error if a part of it is registered otherwise.
    [[nodiscard]] PinResult pin(std::byte* begin, int64_t bytes, std::string& text);
    // Requires: pin() gave kPinned for it.
    void unpin(std::byte* begin, int64_t bytes);

  private:
    void require_same_chunks(const std::byte* begin, int64_t bytes) const;

    std::mutex mutex_;
    std::map<std::pair<std::byte*, int64_t>, int> users_;
};

}  // namespace hicache::cuda
