// What a profiler is to NVTX: a library named by NVTX_INJECTION64_PATH, which NVTX loads and asks
// to take its calls. This one writes down the ranges of the domain "hicache_nsa".
//
// A test loads the library by the same path and asks ranges_seen(): a line a range, in the order
// in which they were opened, each "name" behind as many spaces as ranges of its thread were open.
#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>

namespace {

char ours;  // its address is the handle of the domain
std::mutex mutex;
std::string seen;
int64_t unbalanced = 0;
std::atomic<int64_t> open_ranges{0};
thread_local int depth = 0;

nvtxDomainHandle_t NVTX_API domain_create(const char* name) {
    static char other;
    char* const handle = std::strcmp(name, "hicache_nsa") == 0 ? &ours : &other;
    return reinterpret_cast<nvtxDomainHandle_t>(handle);
}

bool is_ours(nvtxDomainHandle_t domain) {
    return reinterpret_cast<char*>(domain) == &ours;
}

int NVTX_API range_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
    if (!is_ours(domain)) return 0;
    std::lock_guard lock(mutex);
    seen += std::string(static_cast<size_t>(depth), ' ') + event->message.ascii + "\n";
    ++open_ranges;
    return depth++;
}

int NVTX_API range_pop(nvtxDomainHandle_t domain) {
    if (!is_ours(domain)) return 0;
    std::lock_guard lock(mutex);
    if (depth == 0) ++unbalanced;
    --open_ranges;
    return --depth;
}

template <typename Function>
void take(NvtxFunctionTable table, unsigned size, unsigned id, Function* function) {
    if (id < size) *table[id] = reinterpret_cast<NvtxFunctionPointer>(function);
}

}  // namespace

extern "C" {

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
    const auto* callbacks =
        static_cast<const NvtxExportTableCallbacks*>(get_table(NVTX_ETID_CALLBACKS));
    NvtxFunctionTable table = nullptr;
    unsigned size = 0;
    if (callbacks == nullptr ||
        callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0)
        return 0;
    take(table, size, NVTX_CBID_CORE2_DomainCreateA, domain_create);
    take(table, size, NVTX_CBID_CORE2_DomainRangePushEx, range_push);
    take(table, size, NVTX_CBID_CORE2_DomainRangePop, range_pop);
    return 1;
}

// The lines so far; they stay valid until the next call.
__attribute__((visibility("default"))) const char* ranges_seen() {
    static std::string given;
    std::lock_guard lock(mutex);
    given = seen;
    return given.c_str();
}

// Ranges that are open, of all threads; above 0 or below: while none should be, a mistake.
__attribute__((visibility("default"))) int64_t ranges_open() {
    return open_ranges;
}

// Ranges that were closed in a thread that had opened none.
__attribute__((visibility("default"))) int64_t ranges_unbalanced() {
    std::lock_guard lock(mutex);
    return unbalanced;
}
}
