// The digests of a host pool: for each page and layer the digest of the bytes that the last save
// wrote there, or 0 for "not known". One word each, [page][layer], see page_digest.h.
//
// All zeros is a table that knows nothing. So the words may lie in memory that somebody else keeps,
// a file among others: what is 0 there is not checked. A copy that is going to write a page forgets
// its digests first and sets them when the bytes are there, so that at any instant a digest that is
// known belongs to bytes that were written whole.
//
// Thread-safe: words are read and written one by one, and copies that share a page do not overlap.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "core/lazy_array.h"

namespace hicache {

class DigestTable {
  public:
    // Memory of its own, made by use(): until then it knows nothing and costs nothing.
    // Throws: std::invalid_argument for negative numbers.
    DigestTable(int64_t pages, int layers);
    // In memory that somebody else keeps; in use from the start. owner: keeps it alive.
    // Throws: std::invalid_argument unless it is num_words(pages, layers) words at a multiple of 8.
    DigestTable(std::span<uint64_t> words, int64_t pages, int layers, std::shared_ptr<void> owner);

    [[nodiscard]] static int64_t num_words(int64_t pages, int layers);

    [[nodiscard]] int64_t pages() const { return pages_; }
    [[nodiscard]] int layers() const { return layers_; }

    // Somebody is going to keep digests here: from now on every save into the pool has to forget.
    // Throws: std::bad_alloc.
    void use();
    [[nodiscard]] bool in_use() const { return words_.load(std::memory_order_acquire) != nullptr; }

    // Requires, all of them: page and layer are in range. set(): in_use().
    [[nodiscard]] uint64_t get(int64_t page, int layer) const;
    void set(int64_t page, int layer, uint64_t digest);
    void forget(int64_t page, int layer);
    // Throws: std::invalid_argument if there is no such page or layer.
    void check_place(int64_t page, int layer) const;

  private:
    [[nodiscard]] std::atomic_ref<uint64_t> word(uint64_t* words, int64_t page, int layer) const {
        return std::atomic_ref<uint64_t>(words[page * layers_ + layer]);
    }

    const int64_t pages_;
    const int layers_;
    const std::shared_ptr<void> owner_;
    std::mutex mutex_;  // of use()
    std::optional<LazyArray<uint64_t>> own_;
    std::atomic<uint64_t*> words_{nullptr};
};

}  // namespace hicache
