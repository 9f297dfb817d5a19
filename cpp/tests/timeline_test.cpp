#include "core/timeline.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "tests/expect_error.h"

namespace hicache {
namespace {

TEST(Timeline, AFenceOfNothingIsDone) {
    const Timeline timeline;
    EXPECT_TRUE(timeline.fence()->done());
    EXPECT_TRUE(timeline.fence()->wait(0.0));
}

TEST(Timeline, AFenceStandsForWhatWasSubmittedBefore) {
    Timeline timeline;
    const int64_t first = timeline.submit();
    const FencePtr fence = timeline.fence();
    const int64_t second = timeline.submit();
    EXPECT_FALSE(fence->done());
    EXPECT_FALSE(fence->wait(0.01));
    EXPECT_FALSE(fence->wait(-1.0));
    timeline.complete(first);
    EXPECT_TRUE(fence->done());
    EXPECT_FALSE(timeline.fence()->done());
    timeline.complete(second);
    EXPECT_TRUE(timeline.fence()->done());
}

TEST(Timeline, CompletingALaterValueCompletesTheEarlierOnes) {
    Timeline timeline;
    timeline.submit();
    const FencePtr fence = timeline.fence();
    timeline.complete(timeline.submit());
    EXPECT_TRUE(fence->done());
}

TEST(Timeline, ValuesOutOfRangeAreRejected) {
    Timeline timeline;
    EXPECT_ERROR(timeline.complete(1), std::invalid_argument, "submitted up to 0");
    timeline.complete(timeline.submit());
    EXPECT_ERROR(timeline.complete(1), std::invalid_argument, "complete up to 1");
    EXPECT_ERROR(timeline.complete(0), std::invalid_argument, "Cannot complete 0");
}

TEST(Timeline, WaitIsWokenFromAnotherThread) {
    Timeline timeline;
    const int64_t value = timeline.submit();
    const FencePtr fence = timeline.fence();
    std::thread waiter([&] { EXPECT_TRUE(fence->wait(std::nullopt)); });
    timeline.complete(value);
    waiter.join();
}

}  // namespace
}  // namespace hicache
