// Run with NVTX_INJECTION64_PATH naming nvtx_injection's library.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

#include "core/nvtx_range.h"
#include "tests/transfer_pools.h"

namespace hicache {
namespace {

using namespace testing_support;

// The library that NVTX has loaded.
template <typename Function>
Function* injected(const char* name) {
    const char* const path = std::getenv("NVTX_INJECTION64_PATH");
    void* const library = path != nullptr ? dlopen(path, RTLD_NOW) : nullptr;
    EXPECT_NE(library, nullptr) << "NVTX_INJECTION64_PATH names no library";
    return library != nullptr ? reinterpret_cast<Function*>(dlsym(library, name)) : nullptr;
}

std::string seen() {
    auto* const call = injected<const char*()>("ranges_seen");
    return call != nullptr ? call() : "";
}

TEST(NvtxRanges, RangesNestAndAreClosed) {
    ASSERT_TRUE(nvtx::attached());
    {
        const NvtxRange outer("outer");
        const NvtxRange inner("copy ", 7);
        EXPECT_EQ(injected<int64_t()>("ranges_open")(), 2);
    }
    EXPECT_NE(seen().find("outer\n copy 7\n"), std::string::npos) << seen();
    EXPECT_EQ(injected<int64_t()>("ranges_open")(), 0);
    EXPECT_EQ(injected<int64_t()>("ranges_unbalanced")(), 0);
}

TEST(NvtxRanges, CopiesAndWaitsForLayersHaveRanges) {
    TransferPools pools{PoolShape{}};
    pools.engine().hold(kLoad);
    const Ticket ticket = pools.submit(kLoad, {0, 1, 2}, {0, 1, 2});
    EXPECT_FALSE(ticket.wait_layer(0, 0.01));
    pools.engine().release(kLoad);
    EXPECT_TRUE(ticket.wait(std::nullopt));
    EXPECT_NE(seen().find("submit h2d copy of pages 3\n"), std::string::npos) << seen();
    EXPECT_NE(seen().find("wait for layer 0\n"), std::string::npos) << seen();
    EXPECT_EQ(injected<int64_t()>("ranges_open")(), 0);
    EXPECT_EQ(injected<int64_t()>("ranges_unbalanced")(), 0);
}

}  // namespace
}  // namespace hicache
