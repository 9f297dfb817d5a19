// What an engine may choose between when it copies.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "core/digest_table.h"
#include "transfer/digest_sample.h"
#include "transfer/link_curve.h"

namespace hicache {

// How a GPU moves a copy's bytes. A host backend has one way and no name for it.
enum class Way {
    kDirect = 0,  // copy engine: as few and as large copies as the two sides allow
    kKernel = 1,  // a few blocks of the GPU's own processors gather or scatter
    kStaged =
        2,  // copy engine between host and a ring on the device, kernel between ring and pages
};
inline constexpr int kWays = 3;
inline constexpr std::array<Way, kWays> kAllWays{Way::kDirect, Way::kKernel, Way::kStaged};

enum class Pinning {
    kAuto,    // pin the host pool; if the system refuses, go on without and say so
    kAlways,  // refuse to work without
    kNever,
};

struct CopyOptions {
    int workers = 0;           // host threads a direction, 0 = the backend chooses
    std::optional<Way> way{};  // nullopt: chosen for each copy
    int kernel_blocks = 0;     // blocks a kernel may use, 0 = the backend chooses
    Pinning pinning = Pinning::kAuto;
    int64_t pin_chunk_bytes = 0;  // host memory is pinned in chunks of this, 0 = default
    int64_t staging_bytes = 0;    // device memory of a direction's staging ring, 0 = default
    std::shared_ptr<const LinkCurve> link_curve{};  // what the link does, nullptr = a typical one
    Verify verify = Verify::kOff;
    bool time_waits = true;                  // measure how long layers are waited for
    std::shared_ptr<DigestTable> digests{};  // of the host pool; nullptr: the engine's own, if any
};

// What the caller knows about one copy; what it leaves open is guessed at submission.
struct CopyHints {
    std::optional<bool> layerwise{};       // nullopt: loads are, saves are not
    std::optional<bool> beside_compute{};  // nullopt: if a fence is not complete yet
};

[[nodiscard]] std::string_view name(Way way);  // "direct", "kernel", "staged"
// A way's name, or "auto". Throws: std::invalid_argument for anything else.
[[nodiscard]] std::optional<Way> parse_way(std::string_view text);
// "auto", "always", "never". Throws: std::invalid_argument for anything else.
[[nodiscard]] Pinning parse_pinning(std::string_view name);
// "off", "sample", "all". Throws: std::invalid_argument for anything else.
[[nodiscard]] Verify parse_verify(std::string_view name);

}  // namespace hicache
