#include "core/page_index.h"

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include "core/errors.h"

namespace hicache {

PageIndex::PageIndex(int64_t num_pages, std::string_view policy)
    : allocator_(num_pages, {}),
      table_(num_pages),
      entries_(num_pages),
      queue_(make_eviction_queue(policy, num_pages)),
      policy_(policy) {}

// ---- what is there ---------------------------------------------------------------------------

std::vector<uint32_t> PageIndex::find_all(std::span<const Key> keys) const {
    std::vector<uint32_t> pages(keys.size());
    table_.find_all(keys, pages);
    return pages;
}

KeyState PageIndex::state_of(uint32_t page) const {
    if (page == kNoPage || entries_[page].withheld) return KeyState::kMiss;
    return entries_[page].state == State::kHit ? KeyState::kHit : KeyState::kPending;
}

void PageIndex::lookup(std::span<const Key> keys, std::span<KeyState> states) const {
    const auto pages = find_all(keys);
    for (size_t i = 0; i < keys.size(); ++i)
        states[i] = state_of(pages[i]);
}

int64_t PageIndex::prefix(std::span<const Key> keys) const {
    const auto pages = find_all(keys);
    const auto end = std::ranges::find_if(
        pages, [this](uint32_t page) { return state_of(page) != KeyState::kHit; });
    return end - pages.begin();
}

// ---- links and pins --------------------------------------------------------------------------

bool PageIndex::may_go(uint32_t page) const {
    const Entry& entry = entries_[page];
    return entry.state == State::kHit && entry.pins == 0 && entry.first_child == kNoPage;
}

// Tells the queue whether the page may go, after a change of its pins or children.
void PageIndex::refresh(uint32_t page) {
    if (page == kNoPage || entries_[page].state != State::kHit) return;
    const bool ready = may_go(page);
    if (ready != queue_->is_ready(page)) queue_->set_ready(page, ready);
}

void PageIndex::link(uint32_t page, uint32_t parent) {
    Entry& entry = entries_[page];
    entry.parent = parent;
    entry.sibling_before = entry.sibling_after = kNoPage;
    if (parent == kNoPage) return;
    entry.sibling_after = entries_[parent].first_child;
    if (entry.sibling_after != kNoPage) entries_[entry.sibling_after].sibling_before = page;
    entries_[parent].first_child = page;
    refresh(parent);
}

// Takes the page from its parent's children. `parent` stays as it was, for link().
void PageIndex::unlink(uint32_t page) {
    const Entry& entry = entries_[page];
    if (entry.parent == kNoPage) return;
    if (entry.sibling_after != kNoPage)
        entries_[entry.sibling_after].sibling_before = entry.sibling_before;
    (entry.sibling_before == kNoPage ? entries_[entry.parent].first_child
                                     : entries_[entry.sibling_before].sibling_after) =
        entry.sibling_after;
    refresh(entry.parent);
}

void PageIndex::add_pin(uint32_t page) {
    if (entries_[page].pins++ == 0) {
        ++counts_.pinned;
        refresh(page);
    }
}

void PageIndex::remove_pin(uint32_t page) {
    if (--entries_[page].pins == 0) {
        --counts_.pinned;
        refresh(page);
    }
}

std::vector<int64_t> PageIndex::pin(std::span<const Key> keys) {
    const auto pages = find_all(keys);
    for (size_t i = 0; i < keys.size(); ++i) {
        const KeyState state = state_of(pages[i]);
        if (state == KeyState::kHit) continue;
        throw std::out_of_range(message(
            "keys[", i, "] of ", keys.size(), ", ", keys[i].describe(),
            state == KeyState::kPending ? ", is still being stored" : ", is not in the index",
            "; nothing was pinned. Pin what prefix() or lookup() just found."));
    }
    for (const uint32_t page : pages) {
        add_pin(page);
        queue_->use(page);
    }
    return {pages.begin(), pages.end()};
}

void PageIndex::unpin(std::span<const Key> keys) {
    const auto pages = find_all(keys);
    for (size_t i = 0; i < keys.size(); ++i) {
        if (pages[i] != kNoPage && entries_[pages[i]].pins > 0) {
            --entries_[pages[i]].pins;
            continue;
        }
        for (const uint32_t page : std::span(pages).first(i))
            ++entries_[page].pins;
        const bool repeated =
            std::count(pages.begin(), pages.begin() + static_cast<int64_t>(i), pages[i]) > 0;
        bad_argument("keys[", i, "] of ", keys.size(), ", ", keys[i].describe(), ", is ",
                     pages[i] == kNoPage ? "not in the index"
                     : repeated          ? "here more often than it is pinned"
                                         : "not pinned",
                     "; nothing was unpinned.");
    }
    std::vector<int64_t> freed;
    for (const uint32_t page : pages)
        ++entries_[page].pins;
    for (const uint32_t page : pages) {
        if (!entries_[page].withheld) {
            remove_pin(page);
        } else if (--entries_[page].pins == 0) {
            clear(page, freed);
        }
    }
    allocator_.free(freed);
}

void PageIndex::touch(std::span<const Key> keys) {
    for (const uint32_t page : find_all(keys)) {
        if (state_of(page) == KeyState::kHit) queue_->use(page);
    }
}

// ---- stores ----------------------------------------------------------------------------------

// Up to `wanted` pages, in the order in which they go, taken from their parents and not ready.
std::vector<uint32_t> PageIndex::choose_victims(int64_t wanted) {
    std::vector<uint32_t> victims;
    victims.reserve(static_cast<size_t>(wanted));
    while (static_cast<int64_t>(victims.size()) < wanted) {
        const int64_t page = queue_->next();
        if (page < 0) break;
        victims.push_back(static_cast<uint32_t>(page));
        queue_->set_ready(victims.back(), false);
        unlink(victims.back());
    }
    return victims;
}

// Evicts until `wanted` pages are free, but none of `kept`. False: that can't be, nothing changed.
bool PageIndex::make_room(int64_t wanted, std::span<const uint32_t> kept,
                          std::vector<StoredKey>& evicted) {
    const int64_t missing = wanted - allocator_.free_pages();
    if (missing <= 0) return true;
    if (missing > counts_.hit - counts_.pinned) return false;
    for (const uint32_t page : kept)
        add_pin(page);
    const auto victims = choose_victims(missing);
    const bool enough = static_cast<int64_t>(victims.size()) == missing;
    if (!enough) {
        for (const uint32_t page : victims | std::views::reverse) {
            link(page, entries_[page].parent);
            refresh(page);
        }
    }
    for (const uint32_t page : kept)
        remove_pin(page);
    if (!enough) return false;
    std::vector<int64_t> freed;
    freed.reserve(victims.size());
    evicted.reserve(victims.size());
    for (const uint32_t page : victims) {
        evicted.push_back(table_.stored_key(page));
        clear(page, freed);
    }
    counts_.evicted += missing;
    allocator_.free(freed);
    return true;
}

std::optional<IndexStore> PageIndex::begin_store(std::span<const Key> keys, const Key* parent,
                                                 int32_t priority) {
    if (const auto repeat = find_repeat(keys)) {
        bad_argument("keys[", repeat->second, "], ", keys[repeat->second].describe(), ", is keys[",
                     repeat->first, "] again; a chain has each key once. Nothing was stored.");
    }
    IndexStore store;
    const auto pages = find_all(keys);
    std::vector<uint32_t> kept;
    size_t end = 0;  // keys from here on would have a gap above them
    if (parent != nullptr) kept.push_back(table_.find(*parent));
    if (parent == nullptr || state_of(kept[0]) != KeyState::kMiss) {
        for (; end < keys.size() && (pages[end] == kNoPage || !entries_[pages[end]].withheld);
             ++end) {
            if (pages[end] == kNoPage) store.positions.push_back(end);
        }
        std::ranges::copy_if(pages, std::back_inserter(kept), [this](uint32_t page) {
            return state_of(page) != KeyState::kMiss;  // also those below a gap
        });
    }
    const auto wanted = static_cast<int64_t>(store.positions.size());
    if (wanted > 0 && !make_room(wanted, kept, store.evicted)) return std::nullopt;
    counts_.left_out += static_cast<int64_t>(keys.size() - end);
    store.pages = *allocator_.allocate(wanted);
    uint32_t above = parent == nullptr ? kNoPage : kept[0];
    auto fresh = store.pages.begin();
    for (size_t i = 0; i < end; ++i) {
        if (pages[i] != kNoPage) {
            above = pages[i];
            continue;
        }
        const auto page = static_cast<uint32_t>(*fresh++);
        table_.insert(keys[i], page);
        entries_[page] = {kNoPage, kNoPage, kNoPage, kNoPage, 0, priority, State::kPending, false};
        link(page, above);
        above = page;
    }
    counts_.pending += wanted;
    return store;
}

// All are pending from one begin_store() each, or nothing changed.
void PageIndex::mark_finishing(std::span<const Key> keys, std::span<const uint32_t> pages) {
    for (size_t i = 0; i < keys.size(); ++i) {
        const State state = pages[i] == kNoPage ? State::kNone : entries_[pages[i]].state;
        if (state == State::kPending) {
            entries_[pages[i]].state = State::kFinishing;
            continue;
        }
        for (const uint32_t page : pages.first(i))
            entries_[page].state = State::kPending;
        bad_argument("keys[", i, "] of ", keys.size(), ", ", keys[i].describe(), ", is ",
                     state == State::kNone  ? "not in the index"
                     : state == State::kHit ? "not being stored: it is stored already"
                                            : "there twice",
                     "; nothing was finished. Finish each key of a store once.");
    }
}

std::vector<StoredKey> PageIndex::finish_store(std::span<const Key> keys, bool success) {
    const auto pages = find_all(keys);
    mark_finishing(keys, pages);
    std::vector<StoredKey> dropped;
    std::vector<int64_t> freed;
    const auto finish_withheld = [&](uint32_t page) {
        dropped.push_back(table_.stored_key(page));
        clear(page, freed);
    };
    if (success) {
        for (const uint32_t page : pages) {
            if (entries_[page].withheld) continue;
            entries_[page].state = State::kHit;
            --counts_.pending;
            ++counts_.hit;
            queue_->add(page, entries_[page].priority);
            refresh(page);
        }
    } else {
        counts_.failed += static_cast<int64_t>(pages.size());
    }
    for (const uint32_t page : pages | std::views::reverse) {
        if (entries_[page].state != State::kFinishing) continue;  // a hit, or gone with its parent
        if (entries_[page].withheld) {
            finish_withheld(page);
        } else {
            drop_with_all_below(page, dropped, freed);
        }
    }
    allocator_.free(freed);
    return dropped;
}

// ---- drops -----------------------------------------------------------------------------------

// The page is free from now on, once `freed` is.
void PageIndex::clear(uint32_t page, std::vector<int64_t>& freed) {
    Entry& entry = entries_[page];
    if (entry.withheld) {
        --counts_.withheld;
    } else if (entry.state == State::kHit) {
        --counts_.hit;
        queue_->remove(page);
    } else {
        --counts_.pending;
    }
    table_.erase(page);
    entry.state = State::kNone;
    entry.withheld = false;
    freed.push_back(page);
}

// Makes a miss of a key without looking at its relatives; clears or withholds its page.
void PageIndex::drop(uint32_t page, std::vector<int64_t>& freed) {
    Entry& entry = entries_[page];
    if (entry.state != State::kPending && entry.pins == 0) {
        clear(page, freed);
        return;
    }
    if (entry.state == State::kHit) {
        --counts_.hit;
        --counts_.pinned;
        queue_->remove(page);
    } else {
        --counts_.pending;
    }
    entry.withheld = true;
    entry.parent = entry.first_child = entry.sibling_before = entry.sibling_after = kNoPage;
    ++counts_.withheld;
}

void PageIndex::drop_with_all_below(uint32_t page, std::vector<StoredKey>& dropped,
                                    std::vector<int64_t>& freed) {
    unlink(page);
    std::vector<uint32_t> below{page};  // parents before children
    for (size_t i = 0; i < below.size(); ++i) {
        for (uint32_t child = entries_[below[i]].first_child; child != kNoPage;
             child = entries_[child].sibling_after)
            below.push_back(child);
    }
    for (const uint32_t each : below | std::views::reverse) {
        dropped.push_back(table_.stored_key(each));
        drop(each, freed);
    }
}

int64_t PageIndex::reset() {
    if (counts_.pending == 0 && counts_.pinned == 0 && counts_.withheld == 0) return start_anew();
    std::vector<uint32_t> all = table_.pages();
    std::ranges::sort(all);  // neighbours come free together
    const int64_t dropped = counts_.hit + counts_.pending;
    std::vector<int64_t> freed;
    freed.reserve(all.size());
    for (const uint32_t page : all) {
        if (!entries_[page].withheld) drop(page, freed);
    }
    allocator_.free(freed);
    return dropped;
}

// reset() where no page is withheld: new tables, so that nothing is done key by key.
int64_t PageIndex::start_anew() {
    PageIndex fresh(pages().num_pages(), policy_);
    fresh.counts_.evicted = counts_.evicted;
    fresh.counts_.failed = counts_.failed;
    fresh.counts_.left_out = counts_.left_out;
    const int64_t dropped = counts_.hit;
    *this = std::move(fresh);
    return dropped;
}

}  // namespace hicache
