// The memory of a host pool, faulted in by several threads: an anonymous mapping, or part of one
// that somebody else made.
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

namespace hicache {

class HostMemory {
  public:
    // threads: how many fault the pages in, 0 = all cores. prefault=false maps without touching, so
    // that memory is used only where it is written (sparse).
    // Throws: std::invalid_argument for negative arguments; std::bad_alloc with the numbers in
    // what() if the mapping fails, or if it is to be faulted in and less memory than that is
    // available.
    explicit HostMemory(int64_t nbytes, int threads = 0, bool prefault = true);

    // Bytes that somebody else mapped and that `owner` keeps mapped; what is in them stays. They
    // have no guard zones.
    HostMemory(std::shared_ptr<const void> owner, std::byte* data, int64_t nbytes, int threads,
               bool prefault);

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
