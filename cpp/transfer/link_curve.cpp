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
    const CostCurve kernel({{403'456, 13.4 * us}, {1'613'824, 37 * us}, {25'821'184, 521 * us}});
    static const auto curve = std::make_shared<const LinkCurve>(LinkCurve{{{
        {CostCurve({{8'448, 0.19 * us}, {50'432, 0.96 * us}, {3'076'352, 57.0 * us}}),
         CostCurve({{50'432, 4.5 * us}, {806'912, 18.1 * us}, {3'227'648, 62.7 * us}}), kernel},
        {CostCurve({{8'448, 0.25 * us}, {50'432, 0.97 * us}, {3'076'352, 56.5 * us}}),
         CostCurve({{50'432, 4.1 * us}, {806'912, 17.5 * us}, {3'227'648, 62.6 * us}}), kernel},
    }}});
    return curve;
}

}  // namespace hicache
