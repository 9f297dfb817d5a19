#include "core/timeline.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "expect_error.h"

namespace hicache {
namespace {

TimelineSpan span(int64_t copy, int64_t begin, int64_t end) {
    TimelineSpan made;
    made.track = Track::kHostToDevice;
    made.kind = SpanKind::kCopy;
    made.copy = copy;
    made.begin = begin;
    made.end = end;
    return made;
}

std::vector<int64_t> copies(const Timeline& timeline) {
    std::vector<int64_t> numbers;
    for (const TimelineSpan& each : timeline.spans())
        numbers.push_back(each.copy);
    return numbers;
}

TEST(Timeline, RecordsNothingUnlessStarted) {
    Timeline timeline;
    EXPECT_FALSE(timeline.on());
    timeline.record(span(1, 0, 1));
    EXPECT_TRUE(timeline.spans().empty());
    timeline.start(4);
    EXPECT_TRUE(timeline.on());
    timeline.record(span(2, 0, 1));
    timeline.stop();
    EXPECT_FALSE(timeline.on());
    timeline.record(span(3, 0, 1));
    EXPECT_EQ(copies(timeline), (std::vector<int64_t>{2}));  // what was recorded stays
    timeline.start(4);
    EXPECT_TRUE(timeline.spans().empty());
}

TEST(Timeline, TheOldestGoWhenTheRingIsFull) {
    Timeline timeline;
    timeline.start(3);
    for (int64_t copy = 1; copy <= 7; ++copy) {
        timeline.record(span(copy, copy, copy + 1));
        EXPECT_EQ(timeline.dropped(), std::max<int64_t>(copy - 3, 0));
    }
    EXPECT_EQ(copies(timeline), (std::vector<int64_t>{5, 6, 7}));
    timeline.start(1);
    EXPECT_EQ(timeline.dropped(), 0);
    timeline.record(span(8, 0, 1));
    timeline.record(span(9, 0, 1));
    EXPECT_EQ(copies(timeline), (std::vector<int64_t>{9}));
}

TEST(Timeline, ASpanNeverEndsBeforeItBegins) {
    Timeline timeline;
    timeline.start(1);
    timeline.record(span(1, 10, 5));
    EXPECT_EQ(timeline.spans().front().begin, 10);
    EXPECT_EQ(timeline.spans().front().end, 10);
}

TEST(Timeline, RefusesACapacityOutsideItsLimits) {
    Timeline timeline;
    timeline.start(2);
    timeline.record(span(1, 0, 1));
    for (const int64_t capacity : {int64_t{0}, int64_t{-1}, Timeline::kMostSpans + 1}) {
        EXPECT_ERROR(timeline.start(capacity), std::invalid_argument, std::to_string(capacity));
    }
    EXPECT_TRUE(timeline.on());  // nothing changed
    EXPECT_EQ(copies(timeline), (std::vector<int64_t>{1}));
}

TEST(Timeline, TracksHaveNames) {
    for (int i = 0; i < kTracks; ++i) {
        const auto track = static_cast<Track>(i);
        EXPECT_EQ(parse_track(name(track)), track);
    }
    EXPECT_ERROR(parse_track("gpu"), std::invalid_argument, "gpu");
}

// Also for the thread sanitizer: writers, readers, and a start in between.
TEST(Timeline, ManyThreadsWriteAtOnce) {
    constexpr int kWriters = 4;
    constexpr int64_t kEach = 2000;
    Timeline timeline;
    timeline.start(kWriters * kEach);
    std::vector<std::thread> writers;
    for (int writer = 0; writer < kWriters; ++writer) {
        writers.emplace_back([&, writer] {
            for (int64_t i = 0; i < kEach; ++i) {
                TimelineSpan made = span(i, i, i + 1);
                made.pages = writer;
                made.thread = current_thread();
                made.text = "a name that does not fit into the string itself";
                timeline.record(std::move(made));
            }
        });
    }
    std::thread reader([&] {
        for (size_t seen = 0; seen < kWriters * kEach;) {
            const size_t now = timeline.spans().size();
            EXPECT_GE(now, seen);
            seen = now;
        }
    });
    for (auto& each : writers)
        each.join();
    reader.join();
    std::map<int64_t, int64_t> next;  // by writer: each one's spans are in its order
    std::map<int64_t, int64_t> thread;
    for (const TimelineSpan& each : timeline.spans()) {
        EXPECT_EQ(each.copy, next[each.pages]++);
        EXPECT_EQ(each.text, "a name that does not fit into the string itself");
        EXPECT_EQ(thread.try_emplace(each.pages, each.thread).first->second, each.thread);
    }
    EXPECT_EQ(next.size(), static_cast<size_t>(kWriters));
    EXPECT_EQ(timeline.dropped(), 0);
}

TEST(Timeline, StartsAndStopsWhileOthersWrite) {
    Timeline timeline;
    std::atomic<bool> over{false};
    std::vector<std::thread> writers;
    for (int writer = 0; writer < 2; ++writer) {
        writers.emplace_back([&] {
            while (!over)
                timeline.record(span(1, 0, 1));
        });
    }
    for (int64_t capacity = 1; capacity <= 200; ++capacity) {
        timeline.start(capacity);
        EXPECT_LE(timeline.spans().size(), static_cast<size_t>(capacity));
        timeline.stop();
    }
    over = true;
    for (auto& each : writers)
        each.join();
}

TEST(Timeline, AForkedChildRecordsNothingAndHangsNowhere) {
    Timeline timeline;
    timeline.start(8);
    timeline.record(span(1, 0, 1));
    std::atomic<bool> over{false};
    std::thread writer([&] {  // may hold the lock at the moment of the fork
        while (!over)
            timeline.record(span(2, 0, 1));
    });
    const pid_t child = fork();
    if (child == 0) {
        timeline.record(span(3, 0, 1));
        timeline.stop();
        int refused = 0;
        try {
            static_cast<void>(timeline.spans());
        } catch (const std::runtime_error&) {
            ++refused;
        }
        try {
            timeline.start(8);
        } catch (const std::runtime_error&) {
            ++refused;
        }
        _exit(refused == 2 ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    over = true;
    writer.join();
}

TEST(Timeline, AThreadHasAnotherNumberInAForkedChild) {
    const int64_t parent = current_thread();
    EXPECT_EQ(parent, current_thread());
    const pid_t child = fork();
    if (child == 0) _exit(current_thread() == getpid() ? 0 : 1);  // of the first thread: the same
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace hicache
