#include "transfer/link_curve.h"

#include <gtest/gtest.h>

#include "tests/expect_error.h"

namespace hicache {
namespace {

TEST(CostCurve, IsStraightBetweenPointsAndGoesOnOutside) {
    const CostCurve curve({{100, 1.0}, {200, 3.0}, {400, 4.0}});
    EXPECT_DOUBLE_EQ(curve.seconds(100), 1.0);
    EXPECT_DOUBLE_EQ(curve.seconds(150), 2.0);
    EXPECT_DOUBLE_EQ(curve.seconds(300), 3.5);
    EXPECT_DOUBLE_EQ(curve.seconds(400), 4.0);
    EXPECT_DOUBLE_EQ(curve.seconds(800), 6.0);
    EXPECT_DOUBLE_EQ(curve.seconds(75), 0.5);
    EXPECT_DOUBLE_EQ(curve.seconds(1), 0.0);  // never below
}

TEST(CostCurve, RefusesWhatIsNoCurve) {
    using Points = std::vector<CostPoint>;
    const auto refused = [](Points points, const char* text) {
        EXPECT_ERROR(CostCurve(std::move(points)), std::invalid_argument, text);
    };
    refused({{1, 1.0}}, "2 points or more, got 1");
    refused({{2, 1.0}, {2, 2.0}}, "rising sizes");
    refused({{0, 1.0}, {2, 2.0}}, "rising sizes");
    refused({{1, 1.0}, {2, 0.0}}, "times above 0");
}

TEST(LinkCurve, TheTypicalOneIsPlausible) {
    for (const Direction direction : kDirections) {
        const LinkCosts& costs = typical_link_curve()->of(direction);
        for (const CostCurve* curve : {&costs.piece, &costs.rectangle, &costs.kernel}) {
            const double gbps = 16e6 / curve->seconds(16'000'000) / 1e9;
            EXPECT_GT(gbps, 40);
            EXPECT_LT(gbps, 60);
        }
    }
}

}  // namespace
}  // namespace hicache
