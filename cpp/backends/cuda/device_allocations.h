// Which allocation of the device an address belongs to.
#pragma once

#include <cstdint>

namespace hicache::cuda {

// Whether all bytes [first, last] lie in one allocation, so that one operation may copy them; false
// if the driver cannot say. Requires: the device is current.
[[nodiscard]] bool one_allocation(uint64_t first, uint64_t last);

}  // namespace hicache::cuda
