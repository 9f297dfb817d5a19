#include "transfer/copy_options.h"

#include "core/errors.h"

namespace hicache {

std::string_view name(Way way) {
    switch (way) {
        case Way::kDirect:
            return "direct";
        case Way::kKernel:
            return "kernel";
        case Way::kStaged:
            return "staged";
    }
    return "unknown";
}

std::optional<Way> parse_way(std::string_view text) {
    if (text == "auto") return std::nullopt;
    for (const Way way : kAllWays) {
        if (text == name(way)) return way;
    }
    bad_argument("Unknown io_backend '", text, "'; use 'auto', 'direct', 'kernel' or 'staged'.");
}

Pinning parse_pinning(std::string_view name) {
    if (name == "auto") return Pinning::kAuto;
    if (name == "always") return Pinning::kAlways;
    if (name == "never") return Pinning::kNever;
    bad_argument("Unknown pinning '", name, "'; use 'auto', 'always' or 'never'.");
}

Verify parse_verify(std::string_view name) {
    if (name == "off") return Verify::kOff;
    if (name == "sample") return Verify::kSample;
    if (name == "all") return Verify::kAll;
    bad_argument("Unknown verify '", name, "'; use 'off', 'sample' or 'all'.");
}

}  // namespace hicache
