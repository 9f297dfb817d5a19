#include "core/nvtx_range.h"

namespace hicache::nvtx {

bool attached() noexcept {
    return false;
}

void push(const char*, int64_t) noexcept {}
void pop() noexcept {}

}  // namespace hicache::nvtx
