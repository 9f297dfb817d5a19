// Which way bytes go.
#pragma once

#include <array>
#include <string_view>

namespace hicache {

enum class Direction { kHostToDevice = 0, kDeviceToHost = 1 };

inline constexpr std::array kDirections{Direction::kHostToDevice, Direction::kDeviceToHost};

[[nodiscard]] inline int index(Direction direction) {
    return static_cast<int>(direction);
}
[[nodiscard]] inline Direction opposite(Direction direction) {
    return kDirections[1 - index(direction)];
}

// "h2d" or "d2h".
[[nodiscard]] std::string_view name(Direction direction);
// Throws: std::invalid_argument for anything else.
[[nodiscard]] Direction parse_direction(std::string_view name);

}  // namespace hicache
