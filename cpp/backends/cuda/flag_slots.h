// Words of pinned memory that streams wait on and write to, one a layer of a copy.
//
// A slot's value only grows: each user of it takes the next number, writers write it, waiters wait
// for "at least". So a slot is never reset, and a wait that is still queued when the slot has a new
// user passes as it must. The memory is never unmapped: a stream of the engine may come to its wait
// after our backend is gone. It is small and used again by all backends of the process.
#pragma once

#include <cstdint>

#include "core/process.h"

namespace hicache::cuda {

class FlagSlot {
  public:
    // A slot of `words` words. Requires: a device is current.
    // Throws: std::runtime_error if no pinned memory can be had.
    explicit FlagSlot(int words);
    ~FlagSlot();  // requires: no write by a stream is outstanding
    FlagSlot(const FlagSlot&) = delete;
    FlagSlot& operator=(const FlagSlot&) = delete;

    [[nodiscard]] uint64_t address(int word) const;  // for the device
    [[nodiscard]] uint32_t value() const { return value_; }
    // Raises all flags from the host. In a forked child, which has no such memory, does nothing.
    void raise_all();

  private:
    struct Place;
    Place* const place_;
    const int words_;
    const uint32_t value_;
    const ProcessMark process_;
};

}  // namespace hicache::cuda
