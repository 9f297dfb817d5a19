// Bays of device memory that copies pass through, used in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/event_pool.h"

namespace hicache::cuda {

class StagingRing {
  public:
    struct Bay {
        uint64_t address;
        PooledEvent free;  // behind its last use; none before the first
    };

    // Requires: the device is current. Throws: std::runtime_error if there is too little memory.
    StagingRing(int64_t bay_bytes, int bays);

    [[nodiscard]] int64_t bay_bytes() const { return bay_bytes_; }
    [[nodiscard]] Bay& next();

  private:
    const int64_t bay_bytes_;
    const DeviceMemory memory_;
    std::vector<Bay> bays_;
    size_t next_ = 0;
};

}  // namespace hicache::cuda
