// Random work on an index, with check() after every step: for the sanitizers, and for rules that
// hold whatever the order. The order itself is compared with a model in tests/index.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <string>

#include "core/page_index.h"

namespace hicache {
namespace {

// Keys are paths in a tree with three branches: "0120" is below "012".
class Driver {
  public:
    Driver(uint32_t seed, const char* policy) : random_(seed), index_(kPages, policy) {}

    void step() {
        switch (random_() % 8) {
            case 0:
            case 1:
            case 2:
                return store();
            case 3:
                return finish(random_() % 4 != 0);
            case 4:
                return pin();
            case 5:
            case 6:
                return unpin();
            default:
                if (random_() % 50 == 0) {
                    index_.reset();
                } else {
                    index_.touch(keys(chain()));
                }
        }
    }

    void end() {
        while (!pending_.empty())
            finish(true);
        while (!pins_.empty())
            unpin();
        index_.reset();
        index_.check();
        EXPECT_EQ(index_.pages().free_pages(), kPages);
    }

    void check() const {
        index_.check();
        std::set<int64_t> in_use;
        for (const auto& [name, page] : pending_)
            EXPECT_TRUE(in_use.insert(page).second);
        for (const auto& [name, page] : std::map(pins_.begin(), pins_.end()))
            EXPECT_TRUE(in_use.insert(page).second) << "a page that somebody uses has two owners";
        EXPECT_TRUE(index_.pages().is_allocated(std::vector(in_use.begin(), in_use.end())));
    }

  private:
    static constexpr int64_t kPages = 30;

    std::vector<std::string> chain() {
        std::vector<std::string> names(1 + random_() % 7);
        std::string path;
        for (std::string& name : names)
            name = path += static_cast<char>('0' + random_() % 3);
        return names;
    }
    static std::vector<Key> keys(const std::vector<std::string>& names) {
        return {names.begin(), names.end()};
    }

    void store() {
        const auto names = chain();
        const auto store =
            index_.begin_store(keys(names), nullptr, static_cast<int>(random_() % 3));
        if (!store) return;
        for (size_t i = 0; i < store->positions.size(); ++i)
            pending_.emplace(names[store->positions[i]], store->pages[i]);
    }

    void finish(bool success) {
        std::vector<std::string> names;
        for (auto it = pending_.begin(); it != pending_.end();) {
            if (random_() % 2 == 0) {
                names.push_back(it->first);
                it = pending_.erase(it);
            } else {
                ++it;
            }
        }
        index_.finish_store(keys(names), success);
    }

    void pin() {
        auto names = chain();
        names.resize(static_cast<size_t>(index_.prefix(keys(names))));
        const auto pages = index_.pin(keys(names));
        for (size_t i = 0; i < names.size(); ++i)
            pins_.emplace(names[i], pages[i]);
    }

    void unpin() {
        if (pins_.empty()) return;
        const auto it = std::next(pins_.begin(), static_cast<int64_t>(random_() % pins_.size()));
        index_.unpin(keys({it->first}));
        pins_.erase(it);
    }

    std::mt19937 random_;
    PageIndex index_;
    std::map<std::string, int64_t> pending_;    // their pages
    std::multimap<std::string, int64_t> pins_;  // a pin each
};

TEST(PageIndexRandom, EveryStepLeavesItWhole) {
    for (const char* policy : {"lru", "fifo", "mru", "filo", "lfu", "slru", "priority"}) {
        for (uint32_t seed = 0; seed < 4; ++seed) {
            SCOPED_TRACE(std::string(policy) + ", seed " + std::to_string(seed));
            Driver driver(seed, policy);
            for (int step = 0; step < 1500; ++step) {
                driver.step();
                driver.check();
                if (testing::Test::HasFailure()) return;
            }
            driver.end();
        }
    }
}

}  // namespace
}  // namespace hicache
