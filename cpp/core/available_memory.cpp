#include "core/available_memory.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace hicache {
namespace {

int64_t physical_memory() {
    return static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
}

int64_t mem_available(int64_t otherwise) {
    std::ifstream file("/proc/meminfo");
    std::string key, unit;
    int64_t kibibytes = 0;
    while (file >> key >> kibibytes && std::getline(file, unit)) {
        if (key == "MemAvailable:") return kibibytes << 10;
    }
    return otherwise;
}

int64_t group_limit(int64_t otherwise) {
    std::ifstream file("/sys/fs/cgroup/memory.max");
    int64_t bytes = 0;
    return file >> bytes ? bytes : otherwise;  // "max" = no limit
}

}  // namespace

int64_t available_memory() {
    const int64_t physical = physical_memory();
    return std::min({physical, mem_available(physical), group_limit(physical)});
}

}  // namespace hicache
