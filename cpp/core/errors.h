// How the core reports errors. Messages carry the numbers and the next step.
//
// std::invalid_argument (Python: ValueError): an argument is wrong. Thrown before anything changes.
// std::runtime_error (Python: RuntimeError): the state does not allow the call, or is broken.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace hicache {

template <typename... Parts>
[[nodiscard]] std::string message(const Parts&... parts) {
    std::ostringstream out;
    (out << ... << parts);
    return out.str();
}

// Throws: std::invalid_argument with the parts joined.
template <typename... Parts>
[[noreturn]] void bad_argument(const Parts&... parts) {
    throw std::invalid_argument(message(parts...));
}

// Throws: std::runtime_error with the parts joined.
template <typename... Parts>
[[noreturn]] void bad_state(const Parts&... parts) {
    throw std::runtime_error(message(parts...));
}

}  // namespace hicache
