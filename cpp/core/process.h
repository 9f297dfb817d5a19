// Tells a forked child from the process that created an object.
#pragma once

#include <cstdint>

namespace hicache {

// A number that changes in the child of every fork. Threads and locks of another generation must
// not be touched: the threads do not exist here, and a lock may be held for ever.
[[nodiscard]] uint64_t process_generation();

// Remembers the process it was made in.
class ProcessMark {
  public:
    ProcessMark() : generation_(process_generation()) {}

    // Whether this is a forked child of the process the mark was made in.
    [[nodiscard]] bool forked() const { return generation_ != process_generation(); }

    // Throws: std::runtime_error in a forked child. what: the object, for the message.
    void require_same(const char* what) const;

  private:
    uint64_t generation_;
};

}  // namespace hicache
