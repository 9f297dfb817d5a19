// What copies of different sizes cost on one machine: measured once, then used to choose the way.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "transfer/direction.h"

namespace hicache {

struct CostPoint {
    int64_t bytes;
    double seconds;

    bool operator==(const CostPoint&) const = default;
};

// Seconds an operation takes by its bytes: straight lines between measured points, the first and
// the last one continued outside. Never below 0.
class CostCurve {
  public:
    // Throws: std::invalid_argument unless there are two points or more, sizes > 0 and rising,
    // times > 0, finite and never falling.
    explicit CostCurve(std::vector<CostPoint> points);

    [[nodiscard]] double seconds(int64_t bytes) const;
    [[nodiscard]] const std::vector<CostPoint>& points() const { return points_; }

  private:
    std::vector<CostPoint> points_;
};

// Of one direction, while the link is busy all the time.
struct LinkCosts {
    CostCurve piece;      // one of a batch of contiguous pieces, copy engine
    CostCurve rectangle;  // one copy of rows at a distance, copy engine
    CostCurve kernel;     // a layer moved by a kernel, by the layer's bytes
};

struct LinkCurve {
    std::array<LinkCosts, 2> by_direction;

    [[nodiscard]] const LinkCosts& of(Direction direction) const {
        return by_direction[index(direction)];
    }
};

// One H200 on PCIe 5 x16, for whoever has not measured.
[[nodiscard]] std::shared_ptr<const LinkCurve> typical_link_curve();

}  // namespace hicache
