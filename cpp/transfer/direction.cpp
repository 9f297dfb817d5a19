#include "transfer/direction.h"

#include "core/errors.h"

namespace hicache {

std::string_view name(Direction direction) {
    return direction == Direction::kHostToDevice ? "h2d" : "d2h";
}

Direction parse_direction(std::string_view text) {
    for (const Direction direction : kDirections) {
        if (name(direction) == text) return direction;
    }
    bad_argument("Unknown direction '", text, "'; use 'h2d' or 'd2h'.");
}

}  // namespace hicache
