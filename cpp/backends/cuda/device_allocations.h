// Which allocation of the device, or registration of host memory, an address belongs to.
#pragma once

#include <cstdint>
#include <optional>

namespace hicache::cuda {

// Whether all bytes [first, last] lie in one allocation, so that one operation may copy them; false
// if the driver cannot say. Requires: the device is current.
[[nodiscard]] bool one_allocation(uint64_t first, uint64_t last);

// The address behind the allocation or registration that this one lies in; nullopt if the driver
// knows none. Requires: the device is current.
[[nodiscard]] std::optional<uint64_t> end_of_allocation(uint64_t address);

}  // namespace hicache::cuda
