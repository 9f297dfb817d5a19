// What differs between devices: memory, access to it, and the contiguous copy to measure against.
// One file a device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "transfer/direction.h"
#include "transfer/link_curve.h"

namespace hicache::bench {

// One copy of a block of bytes between two blocks of memory: what any copy could reach at best.
class ContiguousCopy {
  public:
    virtual ~ContiguousCopy() = default;

    // Seconds that it took. Requires: nbytes is at most what it was made for.
    virtual double seconds(Direction direction, int64_t nbytes) = 0;
};

// Throws std::runtime_error or std::bad_alloc with the numbers where the system refuses.
class DeviceSide {
  public:
    virtual ~DeviceSide() = default;

    // The device's own name; empty for the CPU.
    [[nodiscard]] virtual std::string hardware() const = 0;
    // Address of new memory that lives as long as this object.
    [[nodiscard]] virtual uint64_t allocate(int64_t nbytes) = 0;
    // Host memory that read() and write() are fast with.
    [[nodiscard]] virtual std::shared_ptr<std::byte[]> staging(int64_t nbytes) = 0;
    // Both return when the bytes are in place. Thread-safe.
    virtual void write(uint64_t device, const std::byte* host, int64_t nbytes) = 0;
    virtual void read(std::byte* host, uint64_t device, int64_t nbytes) = 0;
    [[nodiscard]] virtual std::unique_ptr<ContiguousCopy> contiguous_copy(int64_t nbytes) = 0;
    // What copies cost here, measured now; nullptr where an engine does not ask.
    [[nodiscard]] virtual std::shared_ptr<const LinkCurve> link_curve() { return nullptr; }
};

// workers: threads of the contiguous copy.
[[nodiscard]] std::unique_ptr<DeviceSide> create_cpu_side(int workers);
// The CUDA runtime's current device. Throws: std::runtime_error with CUDA's own words if there is
// none, or if this build has no CUDA backend.
[[nodiscard]] std::unique_ptr<DeviceSide> create_cuda_side();

}  // namespace hicache::bench
