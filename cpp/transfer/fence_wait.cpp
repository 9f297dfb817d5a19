#include "transfer/fence_wait.h"

namespace hicache {

std::optional<std::string> wait_for_fences(const std::vector<FencePtr>& fences,
                                           const std::function<bool()>& give_up) {
    constexpr double kLook = 0.02;  // seconds between looks at give_up()
    for (const FencePtr& fence : fences) {
        while (!fence->wait(kLook)) {
            if (give_up()) {
                return "the transfer engine was closed while the copy waited for earlier work of "
                       "its stream";
            }
        }
    }
    return std::nullopt;
}

}  // namespace hicache
