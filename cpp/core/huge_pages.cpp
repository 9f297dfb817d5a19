#include "core/huge_pages.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr std::array<std::pair<std::string_view, HugePages>, 3> kKinds{{
    {"off", HugePages::kOff},
    {"transparent", HugePages::kTransparent},
    {"explicit", HugePages::kExplicit},
}};

}  // namespace

HugePagePool huge_page_pool() {
    HugePagePool pool;
    std::ifstream file("/proc/meminfo");
    std::string key, rest;
    int64_t value = 0;
    while (file >> key >> value && std::getline(file, rest)) {
        if (key == "HugePages_Total:") pool.total = value;
        if (key == "HugePages_Free:") pool.free = value;
        if (key == "HugePages_Rsvd:") pool.reserved = value;
        if (key == "Hugepagesize:") pool.page_bytes = value << 10;
    }
    return pool;
}

std::string no_huge_pages(const HugePagePool& pool, int64_t bytes) {
    if (pool.page_bytes == 0) {
        return message("This system has no explicit huge pages for ", bytes,
                       " bytes of host memory; transparent ones are used.");
    }
    const int64_t wanted = pool.pages_of(bytes);
    return message("No explicit huge pages for ", bytes, " bytes of host memory: ", wanted,
                   " pages of ", pool.page_bytes >> 10, " KiB are needed, ", pool.available(),
                   " of ", pool.total,
                   " are free; transparent huge pages are used. Reserve them with 'sysctl "
                   "vm.nr_hugepages=",
                   pool.total + std::max<int64_t>(wanted - pool.available(), 0), "'.");
}

std::string_view name(HugePages kind) {
    for (const auto& [name, each] : kKinds) {
        if (each == kind) return name;
    }
    return "unknown";
}

HugePages parse_huge_pages(std::string_view name) {
    for (const auto& [known, kind] : kKinds) {
        if (known == name) return kind;
    }
    bad_argument("Unknown huge_pages '", name, "'; use 'transparent', 'explicit' or 'off'.");
}

}  // namespace hicache
