// The error for host memory that is not to be had.
#pragma once

#include <cstdint>
#include <new>
#include <string>

#include "core/available_memory.h"
#include "core/errors.h"

namespace hicache {

// std::bad_alloc that says how much was asked for.
class MappingFailed : public std::bad_alloc {
  public:
    // room: bytes that are to be had.
    MappingFailed(int64_t nbytes, const char* reason, int64_t room = available_memory())
        : text_(message("Cannot map ", nbytes, " bytes of host memory: ", reason, "; ", room,
                        " bytes are available. Ask for fewer host pages.")) {}
    const char* what() const noexcept override { return text_.c_str(); }

  private:
    std::string text_;
};

}  // namespace hicache
