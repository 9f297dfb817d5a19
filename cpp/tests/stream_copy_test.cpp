#include "backends/cpu/stream_copy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace hicache {
namespace {

TEST(StreamCopy, EverySizeAndAlignmentIsExact) {
    constexpr size_t kRoom = 64;
    for (const size_t n : {0u, 1u, 63u, 132u, 2047u, 2048u, 2111u, 2112u, 2113u, 4096u, 8448u,
                           8449u, 41984u, 100003u}) {
        std::vector<std::byte> source(n + kRoom);
        for (size_t i = 0; i < source.size(); ++i)
            source[i] = static_cast<std::byte>(i * 131 >> 3);
        for (const size_t from : {0u, 1u, 16u, 37u}) {
            for (const size_t to : {0u, 1u, 15u, 16u, 48u, 63u}) {
                std::vector<std::byte> target(n + 2 * kRoom, std::byte{0xCD});
                auto expected = target;
                std::copy_n(source.begin() + static_cast<ptrdiff_t>(from), n,
                            expected.begin() + static_cast<ptrdiff_t>(to));
                stream_copy(target.data() + to, source.data() + from, n);
                stream_fence();
                ASSERT_TRUE(target == expected) << n << " bytes, " << from << " to " << to;
            }
        }
    }
}

}  // namespace
}  // namespace hicache
