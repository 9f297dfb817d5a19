// Which host memory the stand-in regards as pinned: see stand_in.h.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace hicache::testing_support {

// Thread-safe.
class RegisteredMemory {
  public:
    using Range = std::pair<const std::byte*, size_t>;

    static RegisteredMemory& all();

    // False if a part of it is registered already.
    bool add(const void* begin, size_t bytes);
    // False if no registration begins there.
    bool remove(const void* begin);
    [[nodiscard]] std::optional<Range> around(const void* address) const;
    // All of them, in order of their addresses.
    [[nodiscard]] std::vector<Range> ranges() const;
    // Whether one operation may touch it: it is inside one registration, or outside all.
    [[nodiscard]] bool crosses_no_border(const void* begin, size_t bytes) const;

  private:
    mutable std::mutex mutex_;
    std::map<const std::byte*, size_t> ranges_;
};

}  // namespace hicache::testing_support
