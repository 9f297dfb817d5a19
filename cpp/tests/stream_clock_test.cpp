#include "core/stream_clock.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <thread>

#include "tests/expect_error.h"

namespace hicache {
namespace {

TEST(StreamClock, AFenceOfNothingIsDone) {
    const StreamClock stream_clock;
    EXPECT_TRUE(stream_clock.fence()->done());
    EXPECT_TRUE(stream_clock.fence()->wait(0.0));
}

TEST(StreamClock, AFenceStandsForWhatWasSubmittedBefore) {
    StreamClock stream_clock;
    const int64_t first = stream_clock.submit();
    const FencePtr fence = stream_clock.fence();
    const int64_t second = stream_clock.submit();
    EXPECT_FALSE(fence->done());
    EXPECT_FALSE(fence->wait(0.01));
    EXPECT_FALSE(fence->wait(-1.0));
    stream_clock.complete(first);
    EXPECT_TRUE(fence->done());
    EXPECT_FALSE(stream_clock.fence()->done());
    stream_clock.complete(second);
    EXPECT_TRUE(stream_clock.fence()->done());
}

TEST(StreamClock, CompletingALaterValueCompletesTheEarlierOnes) {
    StreamClock stream_clock;
    stream_clock.submit();
    const FencePtr fence = stream_clock.fence();
    stream_clock.complete(stream_clock.submit());
    EXPECT_TRUE(fence->done());
}

TEST(StreamClock, ValuesOutOfRangeAreRejected) {
    StreamClock stream_clock;
    EXPECT_ERROR(stream_clock.complete(1), std::invalid_argument, "submitted up to 0");
    stream_clock.complete(stream_clock.submit());
    EXPECT_ERROR(stream_clock.complete(1), std::invalid_argument, "complete up to 1");
    EXPECT_ERROR(stream_clock.complete(0), std::invalid_argument, "Cannot complete 0");
}

TEST(StreamClock, WaitIsWokenFromAnotherThread) {
    StreamClock stream_clock;
    const int64_t value = stream_clock.submit();
    const FencePtr fence = stream_clock.fence();
    std::thread waiter([&] { EXPECT_TRUE(fence->wait(std::nullopt)); });
    stream_clock.complete(value);
    waiter.join();
}

}  // namespace
}  // namespace hicache
