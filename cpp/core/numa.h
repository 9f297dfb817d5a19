// Where on the machine memory is taken from.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hicache {

// Pages of the range that are touched from now on come from that node where it has room. Returns 0
// or an errno. Requires: begin lies on a page border.
[[nodiscard]] int prefer_node(std::byte* begin, int64_t bytes, int node);

}  // namespace hicache
