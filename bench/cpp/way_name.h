// Names of the ways a GPU copies: those that the library's io_backend takes.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "transfer/copy_options.h"

namespace hicache::bench {

inline constexpr std::array<std::string_view, 3> kWayNames{"direct", "kernel", "staged"};
static_assert(kWays <= kWayNames.size(), "a way of the core has no name here");

[[nodiscard]] inline std::string_view way_name(Way way) {
    return kWayNames[static_cast<size_t>(way)];
}

}  // namespace hicache::bench
