// F29: what is pinned in chunks is pinned whole or not at all.
#include "backends/cuda/pinned_regions.h"

#include <gtest/gtest.h>

namespace hicache {
namespace {

struct System {
    std::vector<std::byte> memory = std::vector<std::byte>(250);
    std::vector<int64_t> calls;  // offset of a chunk pinned, -offset - 1 of one given back
    int refuse_at = -1;
    int already_at = -1;

    int64_t offset(std::byte* begin) { return begin - memory.data(); }

    Registrar registrar() {
        return {[this](std::byte* begin, int64_t bytes, std::string& text) {
                    const auto chunk = static_cast<int>(offset(begin) / 100);
                    EXPECT_EQ(bytes, chunk < 2 ? 100 : 50);
                    if (chunk == refuse_at) {
                        text = "no more";
                        return PinResult::kRefused;
                    }
                    if (chunk == already_at) return PinResult::kAlready;
                    calls.push_back(offset(begin));
                    return PinResult::kPinned;
                },
                [this](std::byte* begin) { calls.push_back(-offset(begin) - 1); }};
    }
};

TEST(PinnedRegions, ChunksAreGivenBackLastFirst) {
    System system;
    {
        const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
        EXPECT_TRUE(regions.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, 200, -201, -101, -1}));
}

TEST(PinnedRegions, ARefusalGivesBackWhatWasPinnedAndSaysWhere) {
    for (const int chunk : {0, 2}) {
        System system;
        system.refuse_at = chunk;
        const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
        EXPECT_FALSE(regions.pinned());
        EXPECT_NE(regions.refusal()->find("no more"), std::string::npos);
        EXPECT_NE(regions.refusal()->find(chunk == 0 ? "chunk 1 of 3" : "chunk 3 of 3"),
                  std::string::npos);
        const auto expected =
            chunk == 0 ? std::vector<int64_t>{} : std::vector<int64_t>{0, 100, -101, -1};
        EXPECT_EQ(system.calls, expected);
    }
}

TEST(PinnedRegions, WhatSomebodyElsePinnedIsLeftAlone) {
    System system;
    system.already_at = 1;
    {
        const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
        EXPECT_TRUE(regions.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 200, -201, -1}));
}

}  // namespace
}  // namespace hicache
