#include "transfer/copy_options.h"

#include "core/errors.h"

namespace hicache {

std::optional<Way> parse_way(std::string_view name) {
    if (name == "auto") return std::nullopt;
    if (name == "direct") return Way::kDirect;
    if (name == "kernel") return Way::kKernel;
    bad_argument("Unknown io_backend '", name, "'; use 'auto', 'direct' or 'kernel'.");
}

Pinning parse_pinning(std::string_view name) {
    if (name == "auto") return Pinning::kAuto;
    if (name == "always") return Pinning::kAlways;
    if (name == "never") return Pinning::kNever;
    bad_argument("Unknown pinning '", name, "'; use 'auto', 'always' or 'never'.");
}

}  // namespace hicache
