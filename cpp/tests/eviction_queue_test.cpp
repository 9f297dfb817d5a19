#include "core/eviction_queue.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <tuple>

#include "core/page_heap.h"
#include "tests/expect_error.h"

namespace hicache {
namespace {

struct Page {
    int64_t stored, used, uses, priority;
    bool ready = false;
};
using Order = std::function<std::tuple<int64_t, int64_t>(const Page&)>;

// What each policy puts first, as a rank: the least goes.
const std::map<std::string, Order> kOrders{
    {"lru", [](const Page& p) { return std::tuple(p.used, int64_t{0}); }},
    {"mru", [](const Page& p) { return std::tuple(-p.used, int64_t{0}); }},
    {"fifo", [](const Page& p) { return std::tuple(p.stored, int64_t{0}); }},
    {"filo", [](const Page& p) { return std::tuple(-p.stored, int64_t{0}); }},
    {"lfu", [](const Page& p) { return std::tuple(p.uses, p.used); }},
    {"slru", [](const Page& p) { return std::tuple(int64_t{p.uses > 1}, p.used); }},
    {"priority", [](const Page& p) { return std::tuple(p.priority, p.used); }},
};

int64_t next_of(const std::map<uint32_t, Page>& pages, const Order& order) {
    int64_t best = -1;
    for (const auto& [id, page] : pages) {
        if (!page.ready) continue;
        if (best < 0 || order(page) < order(pages.at(static_cast<uint32_t>(best)))) best = id;
    }
    return best;
}

class EveryPolicy : public testing::TestWithParam<std::string> {};

TEST_P(EveryPolicy, AgreesWithASearch) {
    constexpr uint32_t kPages = 40;
    const auto queue = make_eviction_queue(GetParam(), kPages);
    std::map<uint32_t, Page> model;
    std::mt19937 random(11);
    int64_t now = 0;
    for (int step = 0; step < 30000; ++step) {
        const uint32_t page = random() % kPages;
        const auto known = model.find(page);
        const uint32_t what = random() % 8;
        if (known == model.end()) {
            const auto priority = static_cast<int32_t>(random() % 5) - 2;
            ++now;
            model[page] = {now, now, 1, priority};
            queue->add(page, priority);
        } else if (what == 0) {
            model.erase(known);
            queue->remove(page);
        } else if (what < 4) {
            known->second.ready = what != 1;
            queue->set_ready(page, known->second.ready);
        } else if (what < 6) {
            known->second.used = ++now;
            ++known->second.uses;
            queue->use(page);
        } else {
            ASSERT_EQ(queue->next(), next_of(model, kOrders.at(GetParam()))) << "step " << step;
        }
        ASSERT_EQ(queue->contains(page), model.contains(page));
        ASSERT_EQ(queue->size(), static_cast<int64_t>(model.size()));
        queue->check();
    }
}

TEST_P(EveryPolicy, HasNothingToGiveWhenNothingMayGo) {
    const auto queue = make_eviction_queue(GetParam(), 2);
    EXPECT_EQ(queue->next(), -1);
    queue->add(1, 0);
    EXPECT_EQ(queue->next(), -1);
    queue->set_ready(1, true);
    EXPECT_EQ(queue->next(), 1);
    EXPECT_EQ(queue->next(), 1);  // it stays
    queue->set_ready(1, false);
    EXPECT_EQ(queue->next(), -1);
    queue->remove(1);
    EXPECT_EQ(queue->size(), 0);
    queue->check();
}

std::vector<std::string> names() {
    std::vector<std::string> found;
    for (const auto& [name, order] : kOrders)
        found.push_back(name);
    return found;
}
INSTANTIATE_TEST_SUITE_P(Policies, EveryPolicy, testing::ValuesIn(names()),
                         [](const auto& info) { return info.param; });

TEST(EvictionQueue, UnknownPoliciesAreRefusedWithThoseThatAreKnown) {
    EXPECT_ERROR(make_eviction_queue("random", 4), std::invalid_argument, "'random' is unknown");
    EXPECT_ERROR(make_eviction_queue("", 4), std::invalid_argument, "lru, fifo");
    for (const std::string& name : names())
        EXPECT_NE(eviction_policies().find(name), std::string::npos);
}

TEST(PageHeap, GivesPagesInOrder) {
    PageHeap heap(200);
    std::mt19937 random(5);
    std::map<Rank, uint32_t> model;
    for (uint32_t page = 0; page < 200; ++page) {
        const Rank rank{static_cast<int64_t>(random() % 10), page};
        model[rank] = page;
        heap.push(page, rank);
    }
    for (uint32_t page = 0; page < 200; page += 3) {
        model.erase(heap.rank(page));
        if (page % 2 == 0) {
            heap.erase(page);
        } else {
            const Rank rank{static_cast<int64_t>(random() % 10), page};
            model[rank] = page;
            heap.set_rank(page, rank);
        }
        heap.check();
    }
    ASSERT_EQ(heap.size(), model.size());
    for (const auto& [rank, page] : model) {
        EXPECT_EQ(heap.top(), page);
        EXPECT_EQ(heap.top_rank(), rank);
        heap.erase(page);
    }
    EXPECT_TRUE(heap.empty());
}

}  // namespace
}  // namespace hicache
