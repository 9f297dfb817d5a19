#include "core/restored_chains.h"

#include <algorithm>
#include <utility>

#include "core/page_entry.h"

namespace hicache {

const PageTable::Entry& RestoredChains::entry(const Link& link) const {
    return table_.entry(link.page);
}

bool RestoredChains::found(int64_t page) {
    const bool sound =
        table_.proved(page) &&
        by_hash_.emplace(table_.entry(page).hash, static_cast<int64_t>(links_.size())).second;
    if (sound) {
        links_.push_back({.page = page});
    } else {
        ++made_.damaged;
    }
    return sound;
}

// The index of the namespace that the page is the first one of, kNone if it is none.
int64_t RestoredChains::root_of(const Link& link) {
    const auto bytes = entry(link).name();
    std::string name(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    auto at = roots_.find(name);
    if (at == roots_.end()) {
        const auto index = static_cast<int64_t>(roots_.size());
        made_.namespaces.push_back(name);
        at = roots_.emplace(std::move(name), std::pair{index, table_.seed_of(bytes)}).first;
    }
    const auto& [index, seed] = at->second;
    return entry(link).before == seed ? index : kNone;
}

void RestoredChains::join() {
    // In the order of publishing, so that equal tables give equal trees.
    std::vector<int64_t> order(links_.size());
    for (size_t i = 0; i < order.size(); ++i)
        order[i] = static_cast<int64_t>(i);
    std::sort(order.begin(), order.end(), [this](int64_t a, int64_t b) {
        return entry(links_[a]).sequence > entry(links_[b]).sequence;
    });
    for (const int64_t index : order) {
        Link& link = links_[index];
        const auto before = by_hash_.find(entry(link).before);
        if (before == by_hash_.end()) {
            link.root = root_of(link);
            if (link.root != kNone) first_.push_back(index);
            continue;
        }
        Link& parent = links_[before->second];
        const auto mine = entry(link).name(), its = entry(parent).name();
        if (!std::equal(mine.begin(), mine.end(), its.begin(), its.end())) continue;
        link.before = before->second;
        link.sibling = std::exchange(parent.child, index);
    }
}

// Parents come before their children in `order`: each one's latest use is that of what is below.
void RestoredChains::note_use() {
    std::vector<int64_t> order = first_;
    for (size_t i = 0; i < order.size(); ++i) {
        Link& link = links_[order[i]];
        link.reached = true;
        link.used = entry(link).sequence;
        for (int64_t child = link.child; child != kNone; child = links_[child].sibling)
            order.push_back(child);
    }
    for (auto at = order.rbegin(); at != order.rend(); ++at) {
        const Link& link = links_[*at];
        if (link.before == kNone) continue;
        Link& parent = links_[link.before];
        parent.used = std::max(parent.used, link.used);
    }
}

bool RestoredChains::goes_on(const Link& from, const Link& to) const {
    return to.sibling == kNone && entry(to).priority == entry(from).priority;
}

void RestoredChains::add_chain(int64_t first, int64_t parent) {
    const Link& start = links_[first];
    const auto index = static_cast<int64_t>(made_.nodes.size());
    RestoredNode node{.parent = parent,
                      .root = parent == kNone ? start.root : made_.nodes[parent].root,
                      .first = static_cast<int64_t>(made_.pages.size()),
                      .size = 0,
                      .priority = priority_of(entry(start).priority),
                      .created = static_cast<int64_t>(entry(start).sequence),
                      .used = static_cast<int64_t>(start.used)};
    const Link* link = &start;
    while (true) {
        const auto tokens = entry(*link).tokens(table_.page_size_);
        made_.tokens.insert(made_.tokens.end(), tokens.begin(), tokens.end());
        made_.pages.push_back(link->page);
        ++node.size;
        if (link->child == kNone || !goes_on(*link, links_[link->child])) break;
        link = &links_[link->child];
    }
    made_.nodes.push_back(node);
    for (int64_t child = link->child; child != kNone; child = links_[child].sibling)
        waiting_.emplace_back(child, index);
}

Restored RestoredChains::build() {
    join();
    note_use();
    for (const int64_t first : first_)
        waiting_.emplace_back(first, kNone);
    while (!waiting_.empty()) {
        const auto [link, parent] = waiting_.back();
        waiting_.pop_back();
        add_chain(link, parent);
    }
    for (const Link& link : links_) {
        if (!link.reached) lost_.push_back(link.page);
    }
    made_.damaged += static_cast<int64_t>(lost_.size());
    return std::move(made_);
}

}  // namespace hicache
