// Which pages go where, in an order that allows few and large copies.
//
// Pure: the same pairs give the same plan, whatever order they come in. Pairs are sorted by host
// page, and neighbours on both sides are merged into runs.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace hicache {

// `count` pages from host_page and device_page on, neighbours on both sides.
struct PageRun {
    int64_t host_page;
    int64_t device_page;
    int64_t count;

    bool operator==(const PageRun&) const = default;
};

class CopyPlan {
  public:
    // Requires: both spans have the same length.
    CopyPlan(std::span<const int64_t> host_pages, std::span<const int64_t> device_pages);

    [[nodiscard]] int64_t num_pages() const { return starts_.back(); }
    [[nodiscard]] const std::vector<PageRun>& runs() const { return runs_; }

    // Calls visit(PageRun) for the parts of the runs that hold the pages [begin, end) of the plan.
    // Requires: 0 <= begin <= end <= num_pages().
    template <typename Visit>
    void visit_pages(int64_t begin, int64_t end, Visit visit) const {
        for (size_t i = run_of(begin); begin < end; ++i) {
            const int64_t skipped = begin - starts_[i];
            const int64_t count = (end < starts_[i + 1] ? end : starts_[i + 1]) - begin;
            visit(PageRun{runs_[i].host_page + skipped, runs_[i].device_page + skipped, count});
            begin += count;
        }
    }

  private:
    [[nodiscard]] size_t run_of(int64_t page) const;

    std::vector<PageRun> runs_;
    std::vector<int64_t> starts_;  // pages before run i; one entry more than runs
};

}  // namespace hicache
