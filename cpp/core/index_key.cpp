#include "core/index_key.h"

#include "core/errors.h"

namespace hicache {
namespace {

constexpr uint64_t kOdd = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio

uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * kOdd;
    return hash ^ hash >> 32;
}

}  // namespace

Key::Key(std::string_view bytes, bool text)
    : data_(bytes.data()), size_(static_cast<uint8_t>(bytes.size())), text_(text) {
    if (bytes.empty() || bytes.size() > kMaxKeyBytes) {
        bad_argument("A key has ", bytes.size(), " bytes; it must have 1 to ", kMaxKeyBytes,
                     ": hash longer names first.");
    }
}

// Multiply and fold, eight bytes at a time: keys are hashes already, this only brings their bits
// together. Nobody who can't choose a cryptographic hash chooses a bucket.
uint32_t Key::hash() const {
    uint64_t hash = mix(0, size_);
    size_t at = 0;
    for (; at + 8 <= size_; at += 8) {
        uint64_t word;
        std::memcpy(&word, data_ + at, 8);
        hash = mix(hash, word);
    }
    if (at < size_) {
        uint64_t word = 0;
        std::memcpy(&word, data_ + at, size_ - at);
        hash = mix(hash, word);
    }
    return static_cast<uint32_t>(mix(hash, hash >> 29));
}

std::string Key::describe() const {
    constexpr char digits[] = "0123456789abcdef";
    std::string out(text_ ? "'" : "b'");
    for (const char c : bytes()) {
        const auto byte = static_cast<unsigned char>(c);
        if (text_ || (byte >= 0x20 && byte < 0x7f && c != '\'' && c != '\\')) {
            out += c;
        } else {
            out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
        }
    }
    return out + '\'';
}

}  // namespace hicache
