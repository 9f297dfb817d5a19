// The memory of a host pool: bytes, and how far they are made ready for use.
//
// A handle: copies share the bytes, the last one ends the preparation and gives them back.
//
// Thread-safe: the handle is immutable; whoever writes the bytes orders these writes.
// Fork: the child has a copy-on-write view of the bytes (of a file, the file's) and may drop the
// handle; what waits throws std::runtime_error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/anonymous_bytes.h"
#include "core/host_bytes.h"
#include "core/preparation.h"

namespace hicache {

class HostMemory {
  public:
    // An anonymous mapping, made ready as `preparation` says: by default all of it, now.
    // Throws: std::invalid_argument for negative arguments; std::bad_alloc with the numbers in
    // what() if it is larger than mapping.most, before anything is mapped; if the mapping fails, or
    // its first bytes cannot be touched.
    explicit HostMemory(int64_t nbytes, const PreparationOptions& preparation = {},
                        const MappingOptions& mapping = {});

    // Bytes that somebody else has mapped and keeps, a part of a file for instance.
    // Throws: as above.
    HostMemory(std::shared_ptr<const HostBytes> bytes, const PreparationOptions& preparation);

    [[nodiscard]] int64_t nbytes() const;
    [[nodiscard]] std::byte* data() const;
    [[nodiscard]] const HostBytes& bytes() const;
    // What works less well than was asked for, for the user to know; empty if nothing does.
    [[nodiscard]] const std::string& warning() const;
    [[nodiscard]] static bool guarded() { return AnonymousBytes::guarded(); }

    // See Preparation. Except for the counters and stop(), which does nothing there:
    // Throws: std::runtime_error in a forked child.
    [[nodiscard]] int64_t ready_bytes() const;
    [[nodiscard]] int64_t step_bytes() const;
    int64_t take_ready() const;
    [[nodiscard]] bool ended() const;
    [[nodiscard]] std::vector<PreparationNote> take_notes() const;
    bool wait_ready(Timeout timeout = {}) const;
    void attach(const std::shared_ptr<PinnedChunks>& chunks) const;
    void detach(const std::shared_ptr<PinnedChunks>& chunks) const noexcept;
    [[nodiscard]] Preparation::Registered registered() const;
    void step() const;
    void unhold() const;
    void stop() const noexcept;

    // Throws: std::runtime_error with the offset of the first guard byte that was overwritten.
    void check() const;

  private:
    struct Shared;
    [[nodiscard]] Preparation& preparation() const;

    std::shared_ptr<Shared> shared_;
};

}  // namespace hicache
