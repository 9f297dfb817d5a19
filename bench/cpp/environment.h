// The machine and the build, as far as they matter for a figure.
#pragma once

#include <string>

namespace hicache::bench {

// The processor's model; "unknown" where the system does not say.
[[nodiscard]] std::string cpu_name();
[[nodiscard]] int core_count();
// Name and version of what compiled this file.
[[nodiscard]] std::string compiler_name();

}  // namespace hicache::bench
