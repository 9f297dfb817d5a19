// Bytes of host memory and whoever keeps them there: what a HostMemory is made over.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hicache {

// How a mapping asks for its pages. kExplicit: from the system's pool of huge pages.
enum class HugePages { kOff, kTransparent, kExplicit };

// Immutable; the destructor gives the bytes back.
class HostBytes {
  public:
    HostBytes(std::byte* data, int64_t nbytes) : data_(data), nbytes_(nbytes) {}
    virtual ~HostBytes() = default;
    HostBytes(const HostBytes&) = delete;
    HostBytes& operator=(const HostBytes&) = delete;

    [[nodiscard]] std::byte* data() const { return data_; }
    [[nodiscard]] int64_t nbytes() const { return nbytes_; }

    // What it got, not what was asked for.
    [[nodiscard]] virtual HugePages huge_pages() const { return HugePages::kOff; }
    // NUMA node that new pages are taken from where it has room, -1 = none in particular.
    [[nodiscard]] virtual int node() const { return -1; }
    // Throws: std::runtime_error with the offset of a byte around them that was overwritten.
    virtual void check() const {}

  protected:
    std::byte* data_;
    int64_t nbytes_;
};

}  // namespace hicache
