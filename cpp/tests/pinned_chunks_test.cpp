// F29: each chunk is pinned or told to be pageable, and what was pinned is given back, last first.
#include "core/pinned_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/expect_error.h"

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

void pin_all(PinnedChunks& chunks) {
    while (chunks.done_bytes() < chunks.nbytes())
        chunks.pin_next();
}

TEST(PinnedChunks, F29ChunksAreGivenBackLastFirst) {
    System system;
    {
        PinnedChunks chunks(system.memory.data(), 250, 100, system.registrar(), true);
        pin_all(chunks);
        EXPECT_EQ(chunks.pinned_bytes(), 250);
        EXPECT_TRUE(chunks.pinned(0, 250));
        chunks.unpin_all();
        EXPECT_FALSE(chunks.pinned(0, 1));
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, 200, -201, -101, -1}));
}

TEST(PinnedChunks, F29ARefusedChunkStaysPageableAndTheOthersArePinned) {
    for (const int chunk : {0, 2}) {
        System system;
        system.refuse_at = chunk;
        PinnedChunks chunks(system.memory.data(), 250, 100, system.registrar(), false);
        pin_all(chunks);
        EXPECT_NE(chunks.refusal()->find("no more"), std::string::npos);
        EXPECT_NE(chunks.refusal()->find(chunk == 0 ? "chunk 1 of 3" : "chunk 3 of 3"),
                  std::string::npos);
        const int64_t pageable = chunk == 0 ? 100 : 50;
        EXPECT_EQ(chunks.pageable_bytes(), pageable);
        EXPECT_EQ(chunks.pinned_bytes(), 250 - pageable);
        EXPECT_TRUE(chunks.pinned(100, 100));
        EXPECT_EQ(chunks.pinned(99, 2), chunk != 0);
        EXPECT_EQ(chunks.pinned(199, 2), chunk != 2);
    }
}

TEST(PinnedChunks, F29ARequiredChunkThatIsRefusedNamesAddressSizeAndReason) {
    for (const int chunk : {0, 2}) {
        System system;
        system.refuse_at = chunk;
        std::ostringstream where;
        where << "Pinning " << (chunk == 0 ? 100 : 50) << " bytes at "
              << static_cast<void*>(system.memory.data() + 100 * chunk) << " (chunk " << chunk + 1
              << " of 3) failed: no more";
        {
            PinnedChunks chunks(system.memory.data(), 250, 100, system.registrar(), true);
            EXPECT_ERROR(pin_all(chunks), std::runtime_error, where.str());
            EXPECT_EQ(chunks.done_bytes(), 100 * chunk);  // as before
        }
        EXPECT_EQ(system.calls,
                  chunk == 0 ? std::vector<int64_t>{} : (std::vector<int64_t>{0, 100, -101, -1}));
    }
}

TEST(PinnedChunks, F29TheFirstOfSeveralRefusalsIsTold) {
    System system;
    Registrar none = system.registrar();
    none.pin = [&](std::byte* begin, int64_t, std::string& text) {
        text = "no more at " + std::to_string(system.offset(begin));
        return PinResult::kRefused;
    };
    PinnedChunks chunks(system.memory.data(), 250, 100, none, false);
    pin_all(chunks);
    EXPECT_NE(chunks.refusal()->find("no more at 0"), std::string::npos);
    EXPECT_EQ(chunks.pinned_bytes(), 0);
    EXPECT_FALSE(chunks.pinned(0, 250));
    EXPECT_TRUE(chunks.pinned(0, 0));
}

TEST(PinnedChunks, F29TwentyCyclesOfWhichSomeAreRefused) {
    System system;
    for (int turn = 0; turn < 20; ++turn) {
        system.calls.clear();
        system.refuse_at = turn % 2 == 0 ? 1 : -1;
        {
            PinnedChunks chunks(system.memory.data(), 250, 100, system.registrar(), false);
            pin_all(chunks);
            EXPECT_EQ(chunks.pinned_bytes(), turn % 2 == 0 ? 150 : 250);
        }
        EXPECT_EQ(std::count_if(system.calls.begin(), system.calls.end(),
                                [](int64_t call) { return call >= 0; }),
                  std::count_if(system.calls.begin(), system.calls.end(),
                                [](int64_t call) { return call < 0; }));
    }
}

TEST(PinnedChunks, F29ARangeThatIsPinnedTwiceStaysPinnedWhileTheSecondGoes) {
    System system;
    PinnedChunks first(system.memory.data(), 250, 100, system.registrar(), true);
    pin_all(first);
    Registrar again = system.registrar();
    again.pin = [](std::byte*, int64_t, std::string&) { return PinResult::kAlready; };
    {
        PinnedChunks second(system.memory.data(), 250, 100, again, true);
        pin_all(second);
        EXPECT_TRUE(second.pinned(0, 250));
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, 200}));
}

TEST(PinnedChunks, F29WhatSomebodyElsePinnedIsLeftAlone) {
    System system;
    system.already_at = 1;
    {
        PinnedChunks chunks(system.memory.data(), 250, 100, system.registrar(), true);
        pin_all(chunks);
        EXPECT_TRUE(chunks.pinned(0, 250));
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 200, -201, -1}));
}

TEST(PinnedChunks, F29AnErrorLeavesTheChunksBeforeItToBeGivenBack) {
    System system;
    Registrar registrar = system.registrar();
    registrar.pin = [&, pin = registrar.pin](std::byte* begin, int64_t bytes, std::string& text) {
        if (system.offset(begin) == 200) throw std::runtime_error("registered in part");
        return pin(begin, bytes, text);
    };
    {
        PinnedChunks chunks(system.memory.data(), 250, 100, registrar, false);
        EXPECT_ERROR(pin_all(chunks), std::runtime_error, "registered in part");
        EXPECT_TRUE(chunks.pinned(0, 200));
    }
    EXPECT_EQ(system.calls, (std::vector<int64_t>{0, 100, -101, -1}));
}

}  // namespace
}  // namespace hicache
