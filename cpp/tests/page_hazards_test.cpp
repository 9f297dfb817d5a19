#include "transfer/page_hazards.h"

#include <gtest/gtest.h>

#include <vector>

namespace hicache {
namespace {

using Pages = std::vector<int64_t>;
constexpr auto kLoad = Direction::kHostToDevice;
constexpr auto kSave = Direction::kDeviceToHost;

TEST(PageHazards, DisjointCopiesDoNotWait) {
    PageHazards hazards(8, 8);
    EXPECT_EQ(hazards.note(kSave, 1, Pages{0, 1}, Pages{4, 5}), 0);
    EXPECT_EQ(hazards.note(kLoad, 1, Pages{2, 3}, Pages{6, 7}), 0);
}

TEST(PageHazards, SharedPagesWaitForTheLatestOfTheOtherDirection) {
    PageHazards hazards(8, 8);
    hazards.note(kSave, 1, Pages{0}, Pages{1});
    hazards.note(kSave, 2, Pages{2}, Pages{3});
    EXPECT_EQ(hazards.note(kLoad, 1, Pages{0}, Pages{7}), 1);        // reads what 1 writes
    EXPECT_EQ(hazards.note(kLoad, 2, Pages{7, 0}, Pages{3, 6}), 2);  // overwrites what 2 reads
    EXPECT_EQ(hazards.note(kSave, 3, Pages{5}, Pages{7}), 1);        // reads what load 1 wrote
    EXPECT_EQ(hazards.note(kSave, 4, Pages{7}, Pages{0}), 2);        // overwrites what load 2 reads
}

TEST(PageHazards, OneDirectionNeedsNoWait) {
    PageHazards hazards(8, 8);
    hazards.note(kLoad, 1, Pages{0}, Pages{0});
    EXPECT_EQ(hazards.note(kLoad, 2, Pages{0}, Pages{0}), 0);
}

}  // namespace
}  // namespace hicache
