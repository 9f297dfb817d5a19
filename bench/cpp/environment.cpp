#include "environment.h"

#include <fstream>
#include <thread>

namespace hicache::bench {

std::string cpu_name() {
    std::ifstream info("/proc/cpuinfo");
    for (std::string line; std::getline(info, line);) {
        const size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) {
            return line.substr(colon + 2);
        }
    }
    return "unknown";
}

int core_count() {
    return static_cast<int>(std::thread::hardware_concurrency());
}

std::string compiler_name() {
#if defined(__clang__)
    return "clang " __clang_version__;
#else
    return "g++ " __VERSION__;
#endif
}

}  // namespace hicache::bench
