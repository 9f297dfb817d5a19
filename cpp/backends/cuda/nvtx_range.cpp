#include "core/nvtx_range.h"

// A CUDA that came without NVTX's headers: no ranges.
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <array>
#include <cstdio>

namespace hicache::nvtx {
namespace {

// Where no profiler is attached NVTX makes no domain.
nvtxDomainHandle_t domain() noexcept {
    static const nvtxDomainHandle_t made = nvtxDomainCreateA("hicache_nsa");
    return made;
}

}  // namespace

bool attached() noexcept {
    return domain() != nullptr;
}

void push(const char* name, int64_t number) noexcept {
    std::array<char, 64> text{};
    if (number < 0) {
        std::snprintf(text.data(), text.size(), "%s", name);
    } else {
        std::snprintf(text.data(), text.size(), "%s%lld", name, static_cast<long long>(number));
    }
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text.data();
    nvtxDomainRangePushEx(domain(), &event);
}

void pop() noexcept {
    nvtxDomainRangePop(domain());
}

}  // namespace hicache::nvtx

#else

namespace hicache::nvtx {

bool attached() noexcept {
    return false;
}

void push(const char*, int64_t) noexcept {}
void pop() noexcept {}

}  // namespace hicache::nvtx

#endif
