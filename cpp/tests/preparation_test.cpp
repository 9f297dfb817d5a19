// Memory that gets ready in the background: touched and registered in the order of its addresses.
#include "core/preparation.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/host_memory.h"
#include "tests/expect_error.h"

namespace hicache {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr PreparationOptions kHeld{
    .threads = 2, .first_bytes = 2 * kMiB, .step_bytes = kMiB, .held = true};

// A device that registers memory, refuses some of it, and says who is last.
class Device {
  public:
    int64_t refuse_at = -1;  // offset of a chunk
    int64_t throw_at = -1;   // likewise
    std::atomic<int64_t> registered{0};

    std::shared_ptr<PinnedChunks> chunks(const HostMemory& memory, int64_t chunk_bytes,
                                         bool required = false) {
        std::byte* const data = memory.data();
        return std::make_shared<PinnedChunks>(
            data, memory.nbytes(), chunk_bytes,
            Registrar{[this, data](std::byte* begin, int64_t bytes, std::string& text) {
                          if (begin - data == throw_at) throw std::runtime_error("a part is taken");
                          if (begin - data == refuse_at) {
                              text = "refused";
                              return PinResult::kRefused;
                          }
                          registered += bytes;
                          std::lock_guard lock(mutex_);
                          open_.push_back(begin);
                          return PinResult::kPinned;
                      },
                      [this](std::byte* begin, int64_t bytes) {
                          registered -= bytes;
                          std::lock_guard lock(mutex_);
                          EXPECT_EQ(open_.back(), begin) << "not the last one first";
                          open_.pop_back();
                      }},
            required);
    }

  private:
    std::mutex mutex_;
    std::vector<std::byte*> open_;
};

int64_t resident(const HostMemory& memory) {
    const auto page = sysconf(_SC_PAGESIZE);
    std::vector<unsigned char> in(static_cast<size_t>((memory.nbytes() + page - 1) / page));
    EXPECT_EQ(mincore(memory.data(), static_cast<size_t>(memory.nbytes()), in.data()), 0);
    return page * std::count_if(in.begin(), in.end(), [](unsigned char c) { return (c & 1) != 0; });
}

TEST(Preparation, HeldMemoryGetsReadyStepByStep) {
    const HostMemory memory(5 * kMiB + 17, kHeld);
    EXPECT_EQ(memory.ready_bytes(), 2 * kMiB);
    EXPECT_FALSE(memory.ended());
    EXPECT_FALSE(memory.wait_ready(0.0));
    for (const int64_t ready : {3 * kMiB, 4 * kMiB, 5 * kMiB, 5 * kMiB + 17, 5 * kMiB + 17}) {
        memory.step();
        EXPECT_EQ(memory.ready_bytes(), ready);
        EXPECT_EQ(memory.take_ready(), ready);
    }
    EXPECT_TRUE(memory.ended() && memory.wait_ready(0.0));
    EXPECT_TRUE(memory.take_notes().empty());
}

TEST(Preparation, WhatIsReadyIsThere) {
    const HostMemory memory(24 * kMiB, {.threads = 3, .first_bytes = kMiB});
    EXPECT_GE(memory.ready_bytes(), kMiB);
    ASSERT_TRUE(memory.wait_ready(60.0));
    EXPECT_EQ(resident(memory), 24 * kMiB);
}

TEST(Preparation, TouchingChangesNothing) {
    const HostMemory memory(8 * kMiB, kHeld);
    std::memset(memory.data(), 0x5A, static_cast<size_t>(memory.nbytes()));
    memory.unhold();
    ASSERT_TRUE(memory.wait_ready(60.0));
    for (int64_t i = 0; i < memory.nbytes(); ++i)
        ASSERT_EQ(memory.data()[i], std::byte{0x5A}) << i;
}

TEST(Preparation, MemoryThatIsNotTouchedIsReadyAtOnce) {
    const HostMemory memory(64 * kMiB, {.prefault = false, .first_bytes = 0});
    EXPECT_EQ(memory.ready_bytes(), 64 * kMiB);
    EXPECT_LT(resident(memory), 64 * kMiB);
}

TEST(Preparation, BytesOfSomebodyElseKeepTheirContentAndTheirOwner) {
    struct File : HostBytes {
        explicit File(int64_t bytes, bool& gone_when)
            : HostBytes(static_cast<std::byte*>(mmap(nullptr, static_cast<size_t>(bytes),
                                                     PROT_READ | PROT_WRITE,
                                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0)),
                        bytes),
              gone(gone_when) {}
        ~File() override {
            munmap(data(), static_cast<size_t>(nbytes()));
            gone = true;
        }
        bool& gone;
    };
    bool gone = false;
    {
        const auto file = std::make_shared<File>(6 * kMiB, gone);
        std::memset(file->data(), 7, static_cast<size_t>(file->nbytes()));
        // From the middle of a page on: any range will do.
        struct Part : HostBytes {
            explicit Part(std::shared_ptr<File> whole)
                : HostBytes(whole->data() + 100, whole->nbytes() - 200), owner(std::move(whole)) {}
            std::shared_ptr<File> owner;
        };
        const HostMemory memory(std::make_shared<Part>(file), kHeld);
        EXPECT_EQ(memory.ready_bytes(), 2 * kMiB);
        memory.unhold();
        ASSERT_TRUE(memory.wait_ready(60.0));
        EXPECT_EQ(memory.data()[0], std::byte{7});
        EXPECT_EQ(memory.data()[memory.nbytes() - 1], std::byte{7});
        EXPECT_FALSE(gone);
    }
    EXPECT_TRUE(gone);
}

TEST(Preparation, MemoryThatCannotBeTouchedEndsThePoolThereAndIsTold) {
    struct Hole : HostBytes {
        Hole() : HostBytes(nullptr, 8 * kMiB) {
            data_ = static_cast<std::byte*>(mmap(nullptr, 8 * kMiB, PROT_READ | PROT_WRITE,
                                                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
            mprotect(data_ + 6 * kMiB, 2 * kMiB, PROT_NONE);
        }
        ~Hole() override { munmap(data_, 8 * kMiB); }
    };
    const HostMemory memory(std::make_shared<Hole>(), kHeld);
    memory.unhold();
    EXPECT_ERROR(memory.wait_ready(60.0), std::runtime_error, "of 8388608 bytes");
    EXPECT_TRUE(memory.ended());
    EXPECT_EQ(memory.take_ready(), 6 * kMiB);
    const auto notes = memory.take_notes();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_FALSE(notes[0].error);
    EXPECT_NE(notes[0].text.find("Host memory ends at 6291456"), std::string::npos)
        << notes[0].text;
    EXPECT_TRUE(memory.take_notes().empty());
    EXPECT_ERROR(HostMemory(std::make_shared<Hole>(), PreparationOptions{}), std::bad_alloc,
                 "8388608");
}

TEST(Preparation, ChunksAreRegisteredOnceTheyAreTouched) {
    Device device;
    const HostMemory memory(8 * kMiB, kHeld);
    const auto chunks = device.chunks(memory, 2 * kMiB);
    memory.attach(chunks);
    EXPECT_EQ(device.registered, 2 * kMiB);
    EXPECT_EQ(memory.ready_bytes(), 2 * kMiB);
    memory.step();  // half a chunk
    EXPECT_EQ(memory.ready_bytes(), 2 * kMiB);
    memory.step();
    EXPECT_EQ(memory.ready_bytes(), 4 * kMiB);
    EXPECT_EQ(memory.registered().pinned, 4 * kMiB);
    memory.unhold();
    ASSERT_TRUE(memory.wait_ready(60.0));
    EXPECT_EQ(device.registered, 8 * kMiB);
    memory.detach(chunks);
    chunks->unpin_all();
    EXPECT_EQ(device.registered, 0);
}

TEST(Preparation, WhatIsInUseIsRegisteredBeforeAttachReturns) {
    Device device;
    const HostMemory memory(8 * kMiB, kHeld);
    memory.step();
    memory.step();
    memory.take_ready();  // 4 MiB
    memory.step();
    const auto chunks = device.chunks(memory, 2 * kMiB);
    memory.attach(chunks);
    EXPECT_GE(device.registered, 4 * kMiB);
    EXPECT_GE(memory.ready_bytes(), 4 * kMiB);
    memory.detach(chunks);
}

TEST(Preparation, F29AChunkThatIsRefusedIsToldOnceAndTheRestGoesOn) {
    for (const int64_t at : {0, 4}) {
        Device device;
        device.refuse_at = at * kMiB;
        const HostMemory memory(8 * kMiB, kHeld);
        const auto chunks = device.chunks(memory, 2 * kMiB);
        memory.attach(chunks);
        memory.unhold();
        ASSERT_TRUE(memory.wait_ready(60.0));
        EXPECT_EQ(device.registered, 6 * kMiB);
        EXPECT_EQ(memory.registered().pageable, 2 * kMiB);
        const auto notes = memory.take_notes();
        ASSERT_EQ(notes.size(), at == 0 ? 0U : 1U);  // attach() leaves the first to its caller
        if (at > 0) {
            EXPECT_FALSE(notes[0].error);
            EXPECT_NE(notes[0].text.find("chunk 3 of 4) failed: refused"), std::string::npos);
        }
        memory.detach(chunks);
    }
}

TEST(Preparation, F29ARequiredChunkThatIsRefusedIsAnErrorAndThePoolEndsThere) {
    Device device;
    device.refuse_at = 4 * kMiB;
    const HostMemory memory(8 * kMiB, kHeld);
    const auto chunks = device.chunks(memory, 2 * kMiB, true);
    memory.attach(chunks);
    memory.unhold();
    EXPECT_ERROR(memory.wait_ready(60.0), std::runtime_error, "chunk 3 of 4");
    EXPECT_EQ(memory.take_ready(), 4 * kMiB);
    const auto notes = memory.take_notes();
    ASSERT_EQ(notes.size(), 1U);
    EXPECT_TRUE(notes[0].error);
    memory.detach(chunks);
    chunks->unpin_all();
    EXPECT_EQ(device.registered, 0);
}

TEST(Preparation, F29WhatAttachCannotRegisterIsGivenBackAndCanBeTriedAgain) {
    Device device;
    const HostMemory memory(8 * kMiB, {.threads = 2});
    device.refuse_at = 4 * kMiB;
    EXPECT_ERROR(memory.attach(device.chunks(memory, 2 * kMiB, true)), std::runtime_error,
                 "chunk 3 of 4");
    EXPECT_EQ(device.registered, 0);
    device.refuse_at = -1;
    device.throw_at = 2 * kMiB;
    EXPECT_ERROR(memory.attach(device.chunks(memory, 2 * kMiB)), std::runtime_error,
                 "a part is taken");
    EXPECT_EQ(device.registered, 0);
    device.throw_at = -1;
    const auto chunks = device.chunks(memory, 2 * kMiB, true);
    memory.attach(chunks);
    EXPECT_EQ(device.registered, 8 * kMiB);
    EXPECT_TRUE(memory.wait_ready(0.0));
    memory.detach(chunks);
}

TEST(Preparation, AnExceptionOfARegistrarIsAnErrorNotAnAbort) {
    Device device;
    device.throw_at = 6 * kMiB;
    const HostMemory memory(8 * kMiB, kHeld);
    const auto chunks = device.chunks(memory, 2 * kMiB);
    memory.attach(chunks);
    memory.unhold();
    EXPECT_ERROR(memory.wait_ready(60.0), std::runtime_error, "a part is taken");
    EXPECT_EQ(memory.ready_bytes(), 6 * kMiB);
    memory.detach(chunks);
}

TEST(Preparation, TwoRegistrationsAreBothWaitedFor) {
    Device fast;
    Device slow;
    const HostMemory memory(8 * kMiB, kHeld);
    const auto first = fast.chunks(memory, kMiB);
    const auto second = slow.chunks(memory, 4 * kMiB);
    memory.attach(first);
    memory.attach(second);  // whose first chunk is longer than what is let through
    EXPECT_EQ(slow.registered, 4 * kMiB);
    memory.unhold();
    ASSERT_TRUE(memory.wait_ready(60.0));
    EXPECT_EQ(fast.registered, 8 * kMiB);
    EXPECT_EQ(slow.registered, 8 * kMiB);
    memory.detach(second);
    memory.detach(first);
}

TEST(Preparation, StoppingInTheMiddleIsQuickAndKeepsWhatIsReady) {
    Device device;
    const HostMemory memory(64 * kMiB, {.threads = 2, .first_bytes = kMiB});
    const auto chunks = device.chunks(memory, kMiB);
    memory.attach(chunks);
    memory.stop();
    memory.stop();
    const int64_t ready = memory.ready_bytes();
    EXPECT_GE(ready, kMiB);
    EXPECT_TRUE(memory.ended());
    if (ready < memory.nbytes()) {
        EXPECT_ERROR(memory.wait_ready(60.0), std::runtime_error, "was closed");
    }
    memory.detach(chunks);
    chunks->unpin_all();
    EXPECT_EQ(device.registered, 0);
    EXPECT_ERROR(HostMemory(memory).attach(device.chunks(memory, kMiB)), std::runtime_error,
                 "closed");
}

TEST(Preparation, DroppingTheLastHandleEndsIt) {
    for (int turn = 0; turn < 20; ++turn) {
        const HostMemory memory(16 * kMiB, {.threads = 2, .first_bytes = 0});
        EXPECT_LE(memory.ready_bytes(), memory.nbytes());
    }
}

TEST(Preparation, WhoWaitsSeesTheEndFromAnyThread) {
    Device device;
    const HostMemory memory(32 * kMiB, {.threads = 2, .first_bytes = kMiB});
    const auto chunks = device.chunks(memory, kMiB);
    memory.attach(chunks);
    std::vector<std::thread> waiting;
    std::atomic<int> seen{0};
    for (int i = 0; i < 4; ++i)
        waiting.emplace_back([&] { seen += memory.wait_ready(60.0) ? 1 : 0; });
    int64_t before = 0;
    while (!memory.ended()) {
        const int64_t ready = memory.take_ready();
        EXPECT_GE(ready, before);
        before = ready;
    }
    for (auto& each : waiting)
        each.join();
    EXPECT_EQ(seen, 4);
    memory.detach(chunks);
}

TEST(Preparation, SaysWhatItCannotDo) {
    EXPECT_ERROR(HostMemory(1, {.first_bytes = -1}), std::invalid_argument, "first_bytes is -1");
    EXPECT_ERROR(HostMemory(1, {.step_bytes = 0}), std::invalid_argument, "step_bytes is 0");
}

}  // namespace
}  // namespace hicache
