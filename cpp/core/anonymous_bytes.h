// Host memory of this process alone: an anonymous mapping.
//
// Mappings of 2 MiB and more start on a huge-page border. Debug builds put a guard zone in front of
// and behind the bytes; check() finds writes that strayed into them. Explicit huge pages have none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/host_bytes.h"
#include "core/process.h"

namespace hicache {

struct MappingOptions {
    HugePages huge_pages = HugePages::kTransparent;
    int node = -1;    // NUMA node to take pages from where it has room, -1 = the kernel chooses
    int threads = 0;  // that give the pages back at the end, 0 = one a core
    // Bytes it may take, by somebody who knows better than available_memory(), which is asked
    // otherwise, and only for a mapping that is to be touched.
    std::optional<int64_t> most{};
};

class AnonymousBytes : public HostBytes {
  public:
    // Explicit huge pages that are not there are replaced by transparent ones, a node that cannot
    // be bound by none: warning() says so then. Touches nothing but the guard zones.
    // Throws: std::bad_alloc with the numbers in what() if the mapping fails.
    AnonymousBytes(int64_t nbytes, const MappingOptions& options);
    ~AnonymousBytes() override;

    [[nodiscard]] HugePages huge_pages() const override { return huge_pages_; }
    [[nodiscard]] int node() const override { return node_; }
    [[nodiscard]] const std::string& warning() const { return warning_; }
    [[nodiscard]] static bool guarded();
    void check() const override;

  private:
    [[nodiscard]] bool map_explicit();
    void map_small();
    void bind(int node);
    void check_zone(int64_t start) const;

    const ProcessMark process_;
    const int threads_;
    HugePages huge_pages_;
    int node_ = -1;
    void* mapped_ = nullptr;
    int64_t mapped_bytes_ = 0;
    std::string warning_;
};

}  // namespace hicache
