// Waiting on the host for fences, as a thread of a backend does before it starts a copy.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/fence.h"

namespace hicache {

// Waits until all fences are done. Looks at give_up() every few milliseconds and returns why the
// copy fails if that holds before they are.
[[nodiscard]] std::optional<std::string> wait_for_fences(const std::vector<FencePtr>& fences,
                                                         const std::function<bool()>& give_up);

}  // namespace hicache
