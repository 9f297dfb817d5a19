// One anonymous mapping that holds a host pool, faulted in by several threads.
//
// A handle: copies share the mapping, the last one unmaps it. Mappings of 2 MiB and more start on a
// huge-page border and ask for transparent huge pages. Debug builds put a guard zone in front of
// and behind the bytes; check() finds writes that strayed into them.
//
// Thread-safe: the handle is immutable; whoever writes the bytes orders these writes.
// Fork: the child has a copy-on-write view of the bytes and may drop the handle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace hicache {

class HostMemory {
  public:
    // threads: how many fault the pages in, 0 = all cores. prefault=false maps without touching, so
    // that memory is used only where it is written (sparse).
    // most: bytes it may take, by somebody who knows better than available_memory(), which is asked
    // otherwise, and only if the mapping is to be faulted in.
    // Throws: std::invalid_argument for negative arguments; std::bad_alloc with the numbers in
    // what() if the mapping fails or is larger than that; before anything is mapped.
    explicit HostMemory(int64_t nbytes, int threads = 0, bool prefault = true,
                        std::optional<int64_t> most = std::nullopt);

    [[nodiscard]] int64_t nbytes() const;
    [[nodiscard]] std::byte* data() const;
    [[nodiscard]] static bool guarded();

    // Throws: std::runtime_error with the offset of the first guard byte that was overwritten.
    void check() const;

  private:
    class Mapping;
    std::shared_ptr<Mapping> mapping_;
};

}  // namespace hicache
