#include "core/digest_table.h"

#include <utility>

#include "core/errors.h"

namespace hicache {

int64_t DigestTable::num_words(int64_t pages, int layers) {
    constexpr int64_t kMostPages = int64_t{1} << 32;
    if (pages < 0 || pages > kMostPages || layers < 0) {
        bad_argument("A table of digests for ", pages, " pages and ", layers,
                     " layers: both must be 0 or more, pages at most ", kMostPages, ".");
    }
    return pages * layers;
}

DigestTable::DigestTable(int64_t pages, int layers) : pages_(pages), layers_(layers) {
    static_cast<void>(num_words(pages, layers));
}

DigestTable::DigestTable(std::span<uint64_t> words, int64_t pages, int layers,
                         std::shared_ptr<void> owner)
    : pages_(pages), layers_(layers), owner_(std::move(owner)) {
    const int64_t wanted = num_words(pages, layers);
    if (static_cast<int64_t>(words.size()) != wanted) {
        bad_argument("A table of digests for ", pages, " pages of ", layers, " layers takes ",
                     wanted, " words of 8 bytes, ", words.size(), " were given.");
    }
    if (reinterpret_cast<uintptr_t>(words.data()) % sizeof(uint64_t) != 0) {
        bad_argument("A table of digests must start at a multiple of 8 bytes.");
    }
    words_ = words.data();
}

void DigestTable::use() {
    std::lock_guard lock(mutex_);
    if (in_use()) return;
    own_.emplace(num_words(pages_, layers_));
    words_.store(&(*own_)[0], std::memory_order_release);
}

uint64_t DigestTable::get(int64_t page, int layer) const {
    uint64_t* const words = words_.load(std::memory_order_acquire);
    return words == nullptr ? 0 : word(words, page, layer).load(std::memory_order_relaxed);
}

void DigestTable::set(int64_t page, int layer, uint64_t digest) {
    word(words_.load(std::memory_order_acquire), page, layer)
        .store(digest, std::memory_order_relaxed);
}

void DigestTable::forget(int64_t page, int layer) {
    if (get(page, layer) != 0) set(page, layer, 0);
}

void DigestTable::check_place(int64_t page, int layer) const {
    if (page < 0 || page >= pages_ || layer < 0 || layer >= layers_) {
        bad_argument("There is no digest of page ", page, ", layer ", layer, ": the pool has ",
                     pages_, " pages of ", layers_, " layers.");
    }
}

}  // namespace hicache
