// F29: what is pinned in chunks is pinned whole or not at all.
#include "backends/cuda/pinned_regions.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace hicache {
namespace {

struct System {
    std::vector<std::byte> memory = std::vector<std::byte>(250);
    std::vector<int64_t> calls;  // offset of a chunk pinned, -offset - 1 of one given back
    int64_t chunk_bytes = 100;
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
                [this](std::byte* begin, int64_t bytes) {
                    EXPECT_EQ(bytes, std::min<int64_t>(chunk_bytes, 250 - offset(begin)));
                    calls.push_back(-offset(begin) - 1);
                }};
    }
};

TEST(PinnedRegions, F29ChunksAreGivenBackLastFirst) {
    System system;
    {
        const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
        EXPECT_TRUE(regions.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, 200, -201, -101, -1}));
}

TEST(PinnedRegions, F29ARefusalGivesBackWhatWasPinnedAndSaysWhere) {
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

TEST(PinnedRegions, F29ARefusalNamesAddressSizeAndReason) {
    System system;
    system.refuse_at = 2;
    const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
    std::ostringstream where;
    where << "Pinning 50 bytes at " << static_cast<void*>(system.memory.data() + 200);
    EXPECT_EQ(*regions.refusal(), where.str() + " (chunk 3 of 3) failed: no more");
}

TEST(PinnedRegions, F29ARefusalLeavesWhatSomebodyElsePinned) {
    System system;
    system.already_at = 0;
    system.refuse_at = 2;
    {
        const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
        EXPECT_FALSE(regions.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{100, -101}));
}

TEST(PinnedRegions, F29WhatWasRefusedOnceIsPinnedWhenItCanBe) {
    System system;
    for (int turn = 0; turn < 20; ++turn) {
        system.calls.clear();
        system.refuse_at = turn % 2 == 0 ? 1 : -1;
        {
            const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
            EXPECT_EQ(regions.pinned(), turn % 2 != 0);
        }
        EXPECT_EQ(std::count_if(system.calls.begin(), system.calls.end(),
                                [](int64_t call) { return call >= 0; }),
                  std::count_if(system.calls.begin(), system.calls.end(),
                                [](int64_t call) { return call < 0; }));
    }
}

TEST(PinnedRegions, F29ARangeThatIsPinnedTwiceStaysPinnedWhileTheSecondGoes) {
    System system;
    const PinnedRegions first(system.memory.data(), 250, 100, system.registrar());
    Registrar again = system.registrar();
    again.pin = [](std::byte*, int64_t, std::string&) { return PinResult::kAlready; };
    {
        const PinnedRegions second(system.memory.data(), 250, 100, again);
        EXPECT_TRUE(second.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, 200}));
}

TEST(PinnedRegions, F29OneChunkAndNone) {
    System system;
    system.chunk_bytes = 1000;
    Registrar registrar = system.registrar();
    registrar.pin = [&](std::byte* begin, int64_t bytes, std::string&) {
        EXPECT_EQ(bytes, 250);
        system.calls.push_back(system.offset(begin));
        return PinResult::kPinned;
    };
    {
        const PinnedRegions whole(system.memory.data(), 250, 1000, registrar);
        const PinnedRegions nothing(system.memory.data(), 0, 1000, registrar);
        EXPECT_TRUE(whole.pinned() && nothing.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, -1}));
}

TEST(PinnedRegions, F29WhatSomebodyElsePinnedIsLeftAlone) {
    System system;
    system.already_at = 1;
    {
        const PinnedRegions regions(system.memory.data(), 250, 100, system.registrar());
        EXPECT_TRUE(regions.pinned());
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 200, -201, -1}));
}

TEST(PinnedRegions, F29AnErrorGivesBackWhatWasPinned) {
    System system;
    Registrar registrar = system.registrar();
    registrar.pin = [&, pin = registrar.pin](std::byte* begin, int64_t bytes, std::string& text) {
        if (system.offset(begin) == 200) throw std::runtime_error("registered in part");
        return pin(begin, bytes, text);
    };
    EXPECT_THROW(PinnedRegions(system.memory.data(), 250, 100, registrar), std::runtime_error);
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, -101, -1}));
}

}  // namespace
}  // namespace hicache
