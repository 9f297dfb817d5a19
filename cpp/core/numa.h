// Where on the machine memory is taken from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hicache {

// Pages of the range that are touched from now on come from that node where it has room. Returns 0
// or an errno. Requires: begin lies on a page border.
[[nodiscard]] int prefer_node(std::byte* begin, int64_t bytes, int node);

// prefer_node(), and nothing for a node below 0. Returns the node that was bound, or -1; appends to
// `warning` why it could not be.
[[nodiscard]] int bind_to_node(std::byte* begin, int64_t bytes, int node, std::string& warning);

}  // namespace hicache
