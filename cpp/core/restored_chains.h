// Joins the published entries of a page table into chains of pages. See PageTable::restore().
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/page_table.h"

namespace hicache {

class RestoredChains {
  public:
    explicit RestoredChains(const PageTable& table) : table_(table) {}

    // Takes a published page in; false if its entry is not true.
    bool found(int64_t page);

    // Nodes as long as they can be: until a fork, an end or another priority.
    [[nodiscard]] Restored build();

    // Pages that were found, but not the one in front of them.
    [[nodiscard]] const std::vector<int64_t>& without_a_root() const { return lost_; }

  private:
    struct Link {
        int64_t page;
        int64_t before = kNone;  // index of the link in front
        int64_t child = kNone;   // index of the first one behind
        int64_t sibling = kNone;
        int64_t root = kNone;  // of a first page: its namespace
        uint64_t used = 0;
        bool reached = false;
    };
    struct DigestHash {
        size_t operator()(const Digest& digest) const {
            size_t value;
            std::memcpy(&value, digest.data(), sizeof value);
            return value;
        }
    };
    static constexpr int64_t kNone = -1;

    [[nodiscard]] const PageTable::Entry& entry(const Link& link) const;
    [[nodiscard]] int64_t root_of(const Link& link);
    void join();
    void note_use();
    void add_chain(int64_t first, int64_t parent);
    [[nodiscard]] bool goes_on(const Link& from, const Link& to) const;

    const PageTable& table_;
    std::vector<Link> links_;
    std::unordered_map<Digest, int64_t, DigestHash> by_hash_;
    std::map<std::string, std::pair<int64_t, Digest>> roots_;  // index and seed of a namespace
    std::vector<int64_t> first_;                               // links of first pages
    std::vector<std::pair<int64_t, int64_t>> waiting_;  // links that start a node, with its parent
    std::vector<int64_t> lost_;
    Restored made_;
};

}  // namespace hicache
