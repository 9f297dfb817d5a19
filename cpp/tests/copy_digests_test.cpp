// What the digests of a copy forget, enter and compare, without a backend.
#include "transfer/copy_digests.h"

#include <gtest/gtest.h>

#include <vector>

namespace hicache {
namespace {

const PoolFormat kFormat(1, 3, {{"latent", 64, {0, 2}}});  // layer 1 has no bytes

struct Copied {
    std::shared_ptr<DigestTable> table = std::make_shared<DigestTable>(100, 3);
    std::vector<int64_t> host{9, 4, 5};
    std::vector<int64_t> device{0, 8, 2};
    CopyPlan plan{host, device};  // in the order 4, 5, 9

    Copied() { table->use(); }
    CopyDigests copy(Direction direction, Verify verify, int64_t sequence = 1) {
        return {table, kFormat, direction, verify, sequence, {2, 1, 0}, device};
    }
};

constexpr auto kLoad = Direction::kHostToDevice;
constexpr auto kSave = Direction::kDeviceToHost;

TEST(CopyDigests, ASaveForgetsFirstAndEntersAtItsEnd) {
    Copied s;
    for (const int64_t page : {4, 5, 6})
        s.table->set(page, 0, 77);
    auto save = s.copy(kSave, Verify::kSample);
    save.begin(s.plan);
    EXPECT_EQ(s.table->get(4, 0), 0U);
    EXPECT_EQ(s.table->get(6, 0), 77U);
    EXPECT_TRUE(save.wanted(4, 0));
    EXPECT_FALSE(save.wanted(4, 1));
    save.settle(s.plan, std::vector<uint64_t>{24, 25, 29, 0, 0, 0, 4, 5, 9});
    EXPECT_EQ(s.table->get(9, 2), 29U);
    EXPECT_EQ(s.table->get(5, 0), 5U);
    EXPECT_EQ(s.table->get(5, 1), 0U);
    EXPECT_TRUE(save.verdict().corrupt.empty());
}

TEST(CopyDigests, ASaveThatDoesNotVerifyForgets) {
    Copied s;
    s.table->set(9, 2, 77);
    auto save = s.copy(kSave, Verify::kOff);
    EXPECT_FALSE(save.taken());
    save.begin(s.plan);
    save.settle(s.plan, {});
    EXPECT_EQ(s.table->get(9, 2), 0U);
}

TEST(CopyDigests, ALoadNamesTheFirstPageAsSubmitted) {
    Copied s;
    for (const int64_t page : s.host) {
        s.table->set(page, 0, 1);
        s.table->set(page, 2, 2);
    }
    auto load = s.copy(kLoad, Verify::kAll);
    load.begin(s.plan);
    EXPECT_TRUE(load.wanted(9, 0));
    load.settle(s.plan, std::vector<uint64_t>{2, 3, 2, 0, 0, 0, 4, 1, 1});
    const DigestVerdict& verdict = load.verdict();
    EXPECT_EQ(verdict.verified, 3);
    EXPECT_EQ(verdict.corrupt, (std::vector<int64_t>{1, 2}));
    EXPECT_NE(verdict.error.find("host page 4, layer 0"), std::string::npos) << verdict.error;
    EXPECT_NE(verdict.error.find("device page 8"), std::string::npos) << verdict.error;
    EXPECT_NE(verdict.error.find("0x0000000000000004"), std::string::npos) << verdict.error;
    EXPECT_NE(verdict.error.find("0x0000000000000001"), std::string::npos) << verdict.error;
    EXPECT_NE(verdict.error.find("2 of 3 pages"), std::string::npos) << verdict.error;
}

TEST(CopyDigests, WhatIsNotKnownIsNotCompared) {
    Copied s;
    s.table->set(4, 0, 1);
    auto load = s.copy(kLoad, Verify::kAll);
    EXPECT_FALSE(load.wanted(9, 0));
    load.settle(s.plan, std::vector<uint64_t>{8, 8, 8, 8, 8, 8, 1, 8, 8});
    EXPECT_EQ(load.verdict().verified, 1);
    EXPECT_TRUE(load.verdict().corrupt.empty());
}

TEST(CopyDigests, ASampleIsASixteenthAndMovesOn) {
    constexpr int kLayers = 61;
    int64_t chosen = 0;
    std::vector<int> times(64 * kLayers);
    for (uint64_t copy = 1; copy <= 256; ++copy) {
        for (int64_t page = 0; page < 64; ++page) {
            for (int layer = 0; layer < kLayers; ++layer) {
                const DigestSample sample{copy, false};
                const bool has = sample.has(page, layer);
                EXPECT_EQ(has, sample.has(page, layer));
                chosen += has;
                times[page * kLayers + layer] += has;
                EXPECT_TRUE((DigestSample{copy, true}.has(page, layer)));
            }
        }
    }
    EXPECT_NEAR(static_cast<double>(chosen) / (256.0 * 64 * kLayers), 1.0 / 16, 0.001);
    for (const int each : times) {  // 16 on average
        EXPECT_GT(each, 0);
        EXPECT_LT(each, 48);
    }
}

}  // namespace
}  // namespace hicache
