// A fixed array of zeros whose untouched parts use no memory: tables with an entry a page are
// sized for the whole pool and cost what is really used of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <type_traits>

namespace hicache {

template <typename T>
class LazyArray {
    static_assert(std::is_trivial_v<T>);

  public:
    // Throws: std::bad_alloc.
    explicit LazyArray(int64_t size)
        : size_(size),
          items_(
              static_cast<T*>(std::calloc(static_cast<size_t>(size > 0 ? size : 1), sizeof(T)))) {
        if (!items_) throw std::bad_alloc();
    }

    [[nodiscard]] int64_t size() const { return size_; }
    T& operator[](int64_t i) { return items_[i]; }
    const T& operator[](int64_t i) const { return items_[i]; }

  private:
    struct Free {
        void operator()(T* items) const { std::free(items); }
    };
    int64_t size_;
    std::unique_ptr<T[], Free> items_;
};

}  // namespace hicache
