#include "transfer/copy_job.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <thread>

namespace hicache {
namespace {

std::shared_ptr<CopyJob> job_of(std::vector<int> layers,
                                const std::shared_ptr<TransferCounters>& counters) {
    const std::vector<int64_t> pages{1, 2};
    counters->submitted(1);
    return std::make_shared<CopyJob>(CopyOrder{Direction::kHostToDevice,
                                               CopyPlan(pages, pages),
                                               std::move(layers),
                                               true,
                                               false,
                                               {},
                                               2,
                                               100,
                                               false,
                                               1,
                                               0},
                                     8, counters);
}

TEST(CopyJob, ALayerIsDoneOnceTheEarlierOnesOfTheOrderAre) {
    const auto counters = std::make_shared<TransferCounters>();
    const auto job = job_of({5, 1, 7}, counters);
    const auto done = [&] {
        return std::vector<bool>{job->layer_done(5), job->layer_done(1), job->layer_done(7)};
    };
    EXPECT_TRUE(job->layer_done(0));  // not part of the copy
    EXPECT_EQ(done(), (std::vector<bool>{false, false, false}));
    job->layers_landed(2, 3);
    EXPECT_EQ(done(), (std::vector<bool>{false, false, false}));
    EXPECT_FALSE(job->wait_layer(7, 0.01));
    job->layers_landed(0, 1);
    EXPECT_EQ(done(), (std::vector<bool>{true, false, false}));
    job->layers_landed(1, 2);
    EXPECT_EQ(done(), (std::vector<bool>{true, true, true}));
    EXPECT_TRUE(job->wait_layer(7, 0.0));
    EXPECT_FALSE(job->done());
}

TEST(CopyJob, CountersChangeBeforeTheEndIsSeen) {
    const auto counters = std::make_shared<TransferCounters>();
    const auto job = job_of({0}, counters);
    EXPECT_EQ(counters->totals().in_flight(), 1);
    EXPECT_EQ(job->pages_copied(), 0);
    std::thread waiter([&] {
        EXPECT_TRUE(job->wait(std::nullopt));
        EXPECT_EQ(counters->totals().in_flight(), 0);
        EXPECT_EQ(counters->totals().bytes, 200);
    });
    job->start();
    job->layers_landed(0, 1);
    job->finish(std::nullopt, 2);
    waiter.join();
    EXPECT_EQ(job->pages_copied(), 2);
}

TEST(CopyJob, AFailureWakesWhoeverWaitsForALayer) {
    const auto counters = std::make_shared<TransferCounters>();
    const auto job = job_of({0, 1}, counters);
    std::thread waiter([&] { EXPECT_TRUE(job->wait_layer(1, std::nullopt)); });
    job->finish("out of luck", 1);
    waiter.join();
    EXPECT_FALSE(job->layer_done(1));
    EXPECT_EQ(job->error(), "out of luck");
    EXPECT_EQ(counters->totals().failed, 1);
    EXPECT_EQ(counters->totals().bytes, 100);
}

TEST(CopyJob, TheEndIsSeenWheneverTheCopyWasDue) {
    using std::chrono::milliseconds;
    for (const int due : {-1000, 0, 1, 10, 1000}) {  // ms from now on
        for (const bool told_late : {false, true}) {
            const auto counters = std::make_shared<TransferCounters>();
            const auto job = job_of({0}, counters);
            const auto tell = [&] {
                job->expect_end(std::chrono::steady_clock::now() + milliseconds(due),
                                milliseconds(2));
            };
            if (!told_late) tell();
            EXPECT_FALSE(job->wait(0.0));
            EXPECT_FALSE(job->wait(0.003));
            std::thread waiter([&] { EXPECT_TRUE(job->wait(std::nullopt)); });
            while (!job->due().awaited())
                std::this_thread::yield();
            if (told_late) tell();
            std::this_thread::sleep_for(milliseconds(3));
            job->finish(std::nullopt, 2);
            waiter.join();
            EXPECT_FALSE(job->due().awaited());
        }
    }
}

TEST(CopyJob, NobodyLooksWithoutSleepAtACopyThatIsNotDue) {
    DueTime due;
    const SteadyTime end = std::chrono::steady_clock::now();
    EXPECT_FALSE(due.is_near(end));  // not told yet
    due.set(end, std::chrono::milliseconds(1));
    EXPECT_TRUE(due.is_near(end));
    EXPECT_FALSE(due.is_near(end - std::chrono::milliseconds(1)));
    EXPECT_FALSE(due.is_near(end + std::chrono::milliseconds(1)));
    EXPECT_LT(due.from(), end);
}

}  // namespace
}  // namespace hicache
