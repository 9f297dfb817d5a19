#include "core/host_memory.h"

#include <gtest/gtest.h>

#include <cstring>
#include <new>
#include <stdexcept>
#include <utility>

#include "tests/expect_error.h"

namespace hicache {
namespace {

TEST(HostMemory, IsZeroedAndWritable) {
    for (const int64_t size : {1, 4096, 100000, (3 << 20) + 17}) {
        for (const int threads : {0, 1, 3}) {
            const HostMemory memory(size, {.threads = threads});
            EXPECT_EQ(memory.nbytes(), size);
            EXPECT_EQ(memory.data()[0], std::byte{0});
            EXPECT_EQ(memory.data()[size - 1], std::byte{0});
            std::memset(memory.data(), 0x5A, static_cast<size_t>(size));
            memory.check();
        }
    }
}

TEST(HostMemory, LargeMappingsStartOnAHugePage) {
    const HostMemory memory(8 << 20, {.threads = 1, .prefault = false});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (2 << 20), 0u);
}

TEST(HostMemory, NothingIsAllowed) {
    const HostMemory memory(0);
    EXPECT_EQ(memory.nbytes(), 0);
    memory.check();
}

TEST(HostMemory, HandlesShareTheMapping) {
    HostMemory first(4096);
    const HostMemory second = first;
    second.data()[7] = std::byte{9};
    first = HostMemory(0);
    EXPECT_EQ(second.data()[7], std::byte{9});
}

TEST(HostMemory, SaysWhatCannotBeMapped) {
    EXPECT_ERROR(HostMemory(int64_t{1} << 60), std::bad_alloc, "1152921504606846976");
    EXPECT_ERROR(HostMemory(int64_t{1} << 60, {.prefault = false}), std::bad_alloc,
                 "fewer host pages");
    EXPECT_ERROR(HostMemory(-1), std::invalid_argument, "-1");
    EXPECT_ERROR(HostMemory(1, {.threads = -1}), std::invalid_argument, "threads is -1");
}

TEST(HostMemory, TakesNoMoreThanItsMakerAllows) {
    const HostMemory memory(1 << 20, {.threads = 1}, {.most = 1 << 20});
    EXPECT_EQ(memory.nbytes(), 1 << 20);
    for (const bool prefault : {true, false}) {
        EXPECT_ERROR(HostMemory((1 << 20) + 1, {.prefault = prefault}, {.most = 1 << 20}),
                     std::bad_alloc,
                     "1048577 bytes of host memory: not enough memory; 1048576 bytes");
    }
    EXPECT_ERROR(HostMemory(1, {}, {.most = -1}), std::invalid_argument, "most is -1");
}

TEST(HostMemory, GuardZonesFindStrayWrites) {
    if (!HostMemory::guarded()) return;  // release builds have none
    for (const int64_t stray : {int64_t{-1}, int64_t{5000}}) {
        const HostMemory memory(5000);
        memory.data()[stray] = std::byte{1};
        EXPECT_ERROR(memory.check(), std::runtime_error,
                     "offset " + std::to_string(stray) + " of a host pool");
    }
}

}  // namespace
}  // namespace hicache
