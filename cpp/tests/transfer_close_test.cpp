// How an engine ends: close, destruction, forked children.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "tests/expect_error.h"
#include "tests/transfer_pools.h"

namespace hicache::testing_support {
namespace {

TEST(TransferClose, FinishesCopiesAndOpensGates) {
    TransferPools pools({});
    pools.engine().hold(kLoad);
    pools.engine().hold(kSave);
    const Ticket save = pools.submit(kSave, {3}, {5});
    const Ticket load = pools.submit(kLoad, {3}, {6});
    const auto record = pools.device_record(5);
    pools.engine().close();
    EXPECT_TRUE(save.done());
    EXPECT_TRUE(load.done());
    EXPECT_FALSE(load.error());
    EXPECT_TRUE(pools.device_record(6) == record);
    pools.engine().close();
    pools.engine().release(kLoad);  // as a with-statement does on its way out
    EXPECT_ERROR(pools.submit(kLoad, {1}, {1}), std::runtime_error, "closed");
    EXPECT_ERROR(pools.engine().hold(kLoad), std::runtime_error, "closed");
    pools.engine().check();
}

TEST(TransferClose, TheDestructorDoesTheSame) {
    TransferPools pools({});
    pools.engine().hold(kSave);
    const Ticket ticket = pools.submit(kSave, {3}, {5});
    const auto record = pools.device_record(5);
    pools.drop_engine();
    EXPECT_TRUE(ticket.done());
    EXPECT_TRUE(pools.host_record(3) == record);
}

TEST(TransferClose, CopiesWhoseFencesNeverCompleteFail) {
    TransferPools pools({});
    StreamClock compute;
    compute.submit();
    const Ticket stuck = pools.submit(kSave, {3}, {5}, std::nullopt, {compute.fence()});
    const Ticket behind = pools.submit(kSave, {4}, {6});
    const auto before = pools.host_record(3);
    pools.engine().close(0.05);
    ASSERT_TRUE(stuck.done());
    ASSERT_TRUE(stuck.error());
    EXPECT_NE(stuck.error()->find("closed while"), std::string::npos);
    EXPECT_EQ(stuck.pages_copied(), 0);
    EXPECT_TRUE(pools.host_record(3) == before);
    EXPECT_FALSE(behind.error());
}

TEST(TransferClose, CloseWaitsForFencesThatComplete) {
    TransferPools pools({});
    StreamClock compute;
    const int64_t work = compute.submit();
    const Ticket ticket = pools.submit(kSave, {3}, {5}, std::nullopt, {compute.fence()});
    std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
        compute.complete(work);
    });
    pools.engine().close(30);
    EXPECT_TRUE(ticket.done());
    EXPECT_FALSE(ticket.error());
    later.join();
}

TEST(TransferClose, SeveralThreadsMayClose) {
    TransferPools pools({});
    const Ticket ticket = pools.submit(kSave, {1, 2, 3}, {1, 2, 3});
    std::vector<std::thread> closers;
    for (int i = 0; i < 4; ++i) {
        closers.emplace_back([&] {
            pools.engine().close();
            EXPECT_TRUE(ticket.done());
        });
    }
    for (auto& closer : closers)
        closer.join();
}

// What a forked child sees; 0 = as it should be.
int in_child(TransferPools& pools, const Ticket& held, const FencePtr& fence) {
    const auto throws = [](auto call) {
        try {
            call();
            return false;
        } catch (const std::runtime_error&) {
            return true;
        }
    };
    if (!throws([&] { static_cast<void>(pools.submit(kLoad, {1}, {1})); })) return 1;
    if (!throws([&] { pools.engine().hold(kLoad); })) return 2;
    if (!throws([&] { pools.engine().release(kLoad); })) return 3;
    if (!throws([&] { pools.engine().fail_next(kLoad, 0); })) return 4;
    if (!throws([&] { pools.engine().check(); })) return 5;
    if (!throws([&] { static_cast<void>(pools.engine().in_flight(kLoad)); })) return 9;
    if (!throws([&] { held.wait(std::nullopt); })) return 6;
    if (!throws([&] { held.wait_layer(0, std::nullopt); })) return 7;
    if (!throws([&] { fence->wait(std::nullopt); })) return 8;
    pools.engine().close();
    pools.drop_engine();
    return 0;
}

TEST(TransferClose, AForkedChildIsRefusedAndEndsAtOnce) {
    TransferPools pools({});
    StreamClock compute;
    const int64_t work = compute.submit();
    const FencePtr fence = compute.fence();
    pools.engine().hold(kLoad);
    const Ticket held = pools.submit(kLoad, {2}, {2}, std::nullopt, {fence});
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) _exit(in_child(pools, held, fence));
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 0);
    compute.complete(work);
    pools.engine().release(kLoad);
    EXPECT_TRUE(held.wait(30.0));  // the parent goes on
}

}  // namespace
}  // namespace hicache::testing_support
