#include "transfer/link_curve.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/errors.h"

namespace hicache {

CostCurve::CostCurve(std::vector<CostPoint> points) : points_(std::move(points)) {
    if (points_.size() < 2) {
        bad_argument("A cost curve needs 2 points or more, got ", points_.size(), ".");
    }
    CostPoint previous{0, 0};
    for (const CostPoint& point : points_) {
        const bool rises = point.bytes > previous.bytes && point.seconds >= previous.seconds;
        if (!rises || !(point.seconds > 0) || !std::isfinite(point.seconds)) {
            bad_argument(
                "A cost curve needs rising sizes and finite times above 0 that do not fall, got ",
                point.bytes, " bytes in ", point.seconds, " s after ", previous.bytes, " bytes in ",
                previous.seconds, " s.");
        }
        previous = point;
    }
}

double CostCurve::seconds(int64_t bytes) const {
    auto upper = std::ranges::upper_bound(points_, bytes, {}, &CostPoint::bytes);
    upper = std::clamp(upper, points_.begin() + 1, points_.end() - 1);
    const CostPoint& a = *(upper - 1);
    const CostPoint& b = *upper;
    const double slope = (b.seconds - a.seconds) / static_cast<double>(b.bytes - a.bytes);
    return std::max(a.seconds + slope * static_cast<double>(bytes - a.bytes), 0.0);
}

std::shared_ptr<const LinkCurve> typical_link_curve() {
    constexpr double us = 1e-6;
    static const auto curve = std::make_shared<const LinkCurve>(LinkCurve{{{
        {CostCurve({{8'192, 0.9 * us}, {49'152, 0.92 * us}, {2'097'152, 38.7 * us}}),
         CostCurve({{67'584, 4.0 * us}, {540'672, 18 * us}, {2'686'976, 54 * us}}),
         CostCurve({{403'456, 12.6 * us}, {1'613'824, 36.3 * us}, {25'821'184, 508 * us}})},
        {CostCurve({{8'192, 0.8 * us}, {49'152, 0.92 * us}, {2'097'152, 38.3 * us}}),
         CostCurve({{67'584, 3.6 * us}, {540'672, 15 * us}, {2'686'976, 54 * us}}),
         CostCurve({{403'456, 10.6 * us}, {1'613'824, 34.0 * us}, {25'821'184, 497 * us}})},
    }}});
    return curve;
}

}  // namespace hicache
