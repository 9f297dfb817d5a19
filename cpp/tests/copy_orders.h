// Orders of copies for the tests of plans.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "transfer/copy_job.h"

namespace hicache::testing_support {

inline CopyOrder order_of(const std::vector<int64_t>& host, const std::vector<int64_t>& device,
                          std::vector<int> layers, int64_t page_bytes,
                          Direction direction = Direction::kHostToDevice, bool layerwise = true,
                          bool beside_compute = false) {
    return {direction,
            CopyPlan(host, device),
            std::move(layers),
            layerwise,
            beside_compute,
            {},
            static_cast<int64_t>(host.size()),
            page_bytes,
            false,
            1,
            0};
}

}  // namespace hicache::testing_support
