// What an engine names a page by: 1 to 64 bytes, usually a hash. Text and bytes with the same bytes
// are the same key; a key remembers which it was given as, so that it can be handed back likewise.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace hicache {

inline constexpr size_t kMaxKeyBytes = 64;

// A view: whoever gives the bytes keeps them alive.
class Key {
  public:
    // Throws: std::invalid_argument for a size outside [1, 64].
    explicit Key(std::string_view bytes, bool text = false);

    [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }
    [[nodiscard]] bool text() const { return text_; }
    [[nodiscard]] uint32_t hash() const;
    // For messages: 'text', or the bytes as b'..' with everything but plain characters as \x...
    [[nodiscard]] std::string describe() const;

    friend bool operator==(const Key& a, const Key& b) { return a.bytes() == b.bytes(); }

  private:
    const char* data_;
    uint8_t size_;
    bool text_;
};

// A key that owns its bytes.
class StoredKey {
  public:
    StoredKey() = default;
    explicit StoredKey(const Key& key)
        : size_(static_cast<uint8_t>(key.bytes().size())), text_(key.text()) {
        std::memcpy(bytes_.data(), key.bytes().data(), size_);
    }

    // Requires: made of a key.
    [[nodiscard]] Key key() const { return Key({bytes_.data(), size_}, text_); }

  private:
    std::array<char, kMaxKeyBytes> bytes_;
    uint8_t size_;
    bool text_;
};

}  // namespace hicache
