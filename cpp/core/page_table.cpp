#include "core/page_table.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "core/errors.h"
#include "core/page_entry.h"
#include "core/page_hash.h"
#include "core/restored_chains.h"

namespace hicache {
namespace {

// The compiler moves no later store before what was stored. A processor retires stores in order, so
// a killed process has made all of them up to some instant; other threads and devices write a page
// only behind a lock or a queue that orders more than this.
void keep_order() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

}  // namespace

int64_t PageTable::entry_bytes(int64_t page_size) {
    return static_cast<int64_t>(sizeof(Entry)) + page_size * 8;
}

uint64_t PageTable::first_generation() {
    return self_proving(1);
}

bool PageTable::is_generation(uint64_t word) {
    return proves_itself(word);
}

PageTable::PageTable(std::byte* entries, uint64_t* generation, int64_t num_pages, int64_t page_size,
                     std::string fingerprint)
    : entries_(entries),
      generation_(generation),
      num_pages_(num_pages),
      page_size_(page_size),
      entry_bytes_(entry_bytes(page_size)),
      fingerprint_(std::move(fingerprint)),
      made_(static_cast<size_t>(entry_bytes_ / 8)) {}

PageTable::Entry& PageTable::entry(int64_t page) const {
    return *reinterpret_cast<Entry*>(entries_ + page * entry_bytes_);
}

// Release: no store before it in the program may come after it.
void PageTable::store(uint64_t& word, uint64_t value) {
    std::atomic_ref(word).store(value, std::memory_order_release);
    if (watcher_) watcher_();
}

uint64_t PageTable::seal_of(int64_t page, const Entry& entry) const {
    constexpr size_t begin = offsetof(Entry, generation);
    Blake2b hash(sizeof(uint64_t));
    hash.update(std::as_bytes(std::span(&page, 1)));
    hash.update({reinterpret_cast<const std::byte*>(&entry) + begin,
                 static_cast<size_t>(entry_bytes_) - begin});
    uint64_t seal;
    hash.finish(std::as_writable_bytes(std::span(&seal, 1)));
    return seal == 0 ? 1 : seal;
}

Digest PageTable::hash_behind(const Digest& before, std::span<const int64_t> tokens) const {
    return page_hashes(tokens, page_size_, before).front();
}

Digest PageTable::seed_of(std::span<const std::byte> name_space) const {
    return namespace_seed(std::as_bytes(std::span(fingerprint_)), name_space);
}

bool PageTable::published(int64_t page) const {
    const Entry& at = entry(page);
    return at.seal != 0 && at.generation == *generation_;
}

// Whether all that the entry says is true of this page, but for what stands before it.
bool PageTable::proved(int64_t page) const {
    const Entry& at = entry(page);
    return at.seal == seal_of(page, at) && proves_itself(at.priority) &&
           at.namespace_bytes <= kMostNamespaceBytes &&
           at.hash == hash_behind(at.before, at.tokens(page_size_));
}

Restored PageTable::restore() {
    RestoredChains chains(*this);
    for (int64_t page = 0; page < num_pages_; ++page) {
        Entry& at = entry(page);
        if (at.seal == 0) continue;
        if (published(page) && chains.found(page)) {
            sequence_ = std::max(sequence_, at.sequence);
        } else {
            store(at.seal, 0);  // or it might count again, beside pages published later
        }
    }
    Restored restored = chains.build();
    for (const int64_t page : chains.without_a_root())
        store(entry(page).seal, 0);
    return restored;
}

void PageTable::require_pages(std::span<const int64_t> pages) const {
    for (const int64_t page : pages) {
        if (page < 0 || page >= num_pages_) {
            bad_argument("Page ", page, " is not in the page table of ", num_pages_, " pages.");
        }
    }
}

void PageTable::publish(std::span<const int64_t> pages, std::optional<int64_t> before,
                        std::span<const std::byte> name_space, std::span<const int64_t> tokens,
                        int64_t priority) {
    require_pages(pages);
    if (before) require_pages({&*before, 1});
    for (const int64_t page : pages) {
        if (published(page)) bad_argument("Page ", page, " is published already.");
    }
    if (before && !published(*before)) {
        bad_argument("Page ", *before, ", in front of those to publish, is not published.");
    }
    if (tokens.size() != pages.size() * static_cast<size_t>(page_size_) ||
        name_space.size() > kMostNamespaceBytes) {
        bad_argument(pages.size(), " pages of ", page_size_, " tokens each, but ", tokens.size(),
                     " tokens, in a namespace of ", name_space.size(), " bytes (at most ",
                     kMostNamespaceBytes, ").");
    }
    Entry& made = *reinterpret_cast<Entry*>(made_.data());
    made = before ? entry(*before) : Entry{};
    if (!before) {
        made.namespace_bytes = static_cast<uint8_t>(name_space.size());
        if (!name_space.empty()) {
            std::memcpy(made.name_space, name_space.data(), name_space.size());
        }
        made.hash = seed_of(name_space);
    }
    made.generation = *generation_;
    made.priority = priority_word(priority);
    for (size_t i = 0; i < pages.size(); ++i) {
        const auto part =
            tokens.subspan(i * static_cast<size_t>(page_size_), static_cast<size_t>(page_size_));
        std::memcpy(made_.data() + sizeof(Entry) / 8, part.data(), part.size_bytes());
        made.before = made.hash;
        made.hash = hash_behind(made.before, part);
        made.sequence = ++sequence_;
        write(pages[i], made);
    }
}

void PageTable::write(int64_t page, const Entry& made) {
    Entry& at = entry(page);
    if (at.seal != 0) store(at.seal, 0);  // left over from an earlier generation
    auto* words = reinterpret_cast<uint64_t*>(&at);
    for (size_t i = 1; i < made_.size(); ++i)
        store(words[i], made_[i]);
    store(at.seal, seal_of(page, made));
}

void PageTable::withdraw(std::span<const int64_t> pages) {
    require_pages(pages);
    std::vector<Entry*> entries;
    for (const int64_t page : pages) {
        if (entry(page).seal != 0) entries.push_back(&entry(page));
    }
    // The page published last goes first: never one before a page that stands behind it.
    std::sort(entries.begin(), entries.end(),
              [](const Entry* a, const Entry* b) { return a->sequence > b->sequence; });
    for (Entry* at : entries)
        store(at->seal, 0);
    keep_order();
}

void PageTable::set_priority(std::span<const int64_t> pages, int64_t priority) {
    require_pages(pages);
    for (const int64_t page : pages) {
        if (published(page)) store(entry(page).priority, priority_word(priority));
    }
}

void PageTable::next_generation() {
    const auto now = static_cast<uint32_t>(*generation_);
    if (now == std::numeric_limits<uint32_t>::max()) {
        bad_state("This host file has seen ", now, " generations, all there are: remove it.");
    }
    store(*generation_, self_proving(now + 1));
    keep_order();
}

}  // namespace hicache
