#include "core/page_index.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <stdexcept>
#include <string>

#include "tests/expect_error.h"

namespace hicache {
namespace {

using Names = std::vector<std::string>;

// A page index asked by names, checked after every change.
class Index {
  public:
    explicit Index(int64_t pages, const char* policy = "lru") : index(pages, policy) {}

    static std::vector<Key> keys(const Names& names) { return {names.begin(), names.end()}; }
    static Names names(const std::vector<StoredKey>& stored) {
        Names found;
        for (const StoredKey& key : stored)
            found.emplace_back(key.key().bytes());
        return found;
    }

    std::optional<IndexStore> begin(const Names& chain, const char* parent = nullptr) {
        std::optional<Key> above;
        if (parent != nullptr) above.emplace(parent);
        auto store = index.begin_store(keys(chain), above ? &*above : nullptr, 0);
        index.check();
        return store;
    }
    Names finish(const Names& chain, bool success = true) {
        const auto dropped = index.finish_store(keys(chain), success);
        index.check();
        return names(dropped);
    }
    // Stored and written; the names that went for it.
    Names store(const Names& chain, const char* parent = nullptr) {
        const auto store = begin(chain, parent);
        if (!store) return {"no room"};
        Names fresh;
        for (const size_t position : store->positions)
            fresh.push_back(chain[position]);
        EXPECT_EQ(finish(fresh), Names{});
        return names(store->evicted);
    }
    void pin(const Names& chain) {
        static_cast<void>(index.pin(keys(chain)));
        index.check();
    }
    void unpin(const Names& chain) {
        index.unpin(keys(chain));
        index.check();
    }
    // A letter a key: h(it), p(ending), - for a miss.
    std::string states(const Names& chain) const {
        std::vector<KeyState> states(chain.size());
        index.lookup(keys(chain), states);
        std::string letters;
        for (const KeyState state : states)
            letters += "-ph"[static_cast<int>(state)];
        return letters;
    }
    int64_t prefix(const Names& chain) const { return index.prefix(keys(chain)); }
    int64_t free() const { return index.pages().free_pages(); }

    PageIndex index;
};

TEST(PageIndex, StoresAChainInNeighbours) {
    Index index(8);
    const auto store = index.begin({"a", "b", "c"});
    EXPECT_EQ(store->positions, (std::vector<size_t>{0, 1, 2}));
    EXPECT_EQ(store->pages, (std::vector<int64_t>{5, 6, 7}));
    EXPECT_EQ(index.states({"a", "b", "c", "d"}), "ppp-");
    EXPECT_EQ(index.prefix({"a", "b", "c"}), 0);
    EXPECT_EQ(index.finish({"b", "a"}), Names{});
    EXPECT_EQ(index.states({"a", "b", "c"}), "hhp");
    EXPECT_EQ(index.prefix({"a", "b", "c"}), 2);
    EXPECT_EQ(index.index.pin(Index::keys({"b", "a"})), (std::vector<int64_t>{6, 5}));
}

TEST(PageIndex, LeavesOutWhatIsThere) {
    Index index(8);
    index.store({"a"});
    const auto first = index.begin({"a", "b"});
    EXPECT_EQ(first->positions, (std::vector<size_t>{1}));
    const auto second = index.begin({"a", "b", "c"});
    EXPECT_EQ(second->positions, (std::vector<size_t>{2}));
    EXPECT_TRUE(index.begin({"a", "b", "c"})->positions.empty());
    EXPECT_EQ(index.free(), 5);
}

TEST(PageIndex, EvictsFromTheTailWhatWasUsedLongestAgo) {
    Index index(5);
    index.store({"a", "b", "c"});
    index.store({"x", "y"});
    index.index.touch(Index::keys({"c"}));
    EXPECT_EQ(index.store({"1", "2"}), (Names{"y", "x"}));
    EXPECT_EQ(index.store({"3"}), (Names{"c"}));
    EXPECT_EQ(index.store({"4", "5", "6"}), (Names{"b", "a", "2"}));
    EXPECT_EQ(index.index.counts().evicted, 6);
}

TEST(PageIndex, NoRoomMeansThatNothingChanged) {
    Index index(5);
    index.store({"a", "b", "c"});
    index.store({"x"});
    index.pin({"b"});
    EXPECT_FALSE(index.begin({"1", "2", "3", "4"}));  // 1 free, c and x may go
    EXPECT_EQ(index.states({"a", "b", "c", "x", "1"}), "hhhh-");
    EXPECT_EQ(index.free(), 1);
    EXPECT_EQ(index.index.counts().evicted, 0);
    EXPECT_EQ(index.store({"1", "2", "3"}), (Names{"c", "x"}));
}

TEST(PageIndex, NothingOfTheChainGoesForTheChain) {
    Index index(4);
    index.store({"a", "b", "c"});
    index.store({"x"});
    EXPECT_FALSE(index.begin({"a", "b", "c", "d", "e"}));
    EXPECT_FALSE(index.begin({"d", "e"}, "c"));
    EXPECT_EQ(index.store({"d"}, "c"), (Names{"x"}));
    EXPECT_EQ(index.prefix({"a", "b", "c", "d"}), 4);
}

TEST(PageIndex, NothingOfTheCallGoesForTheCall) {
    Index index(4);
    index.store({"own"});  // used longest ago
    index.store({"other"});
    ASSERT_TRUE(index.begin({"p"}));
    index.store({"held"}, "p");
    index.pin({"held"});
    index.finish({"p"}, false);  // held is withheld: what comes after it has a gap above
    EXPECT_EQ(index.store({"1", "2", "held", "own"}), (Names{"other"}));
    EXPECT_EQ(index.states({"1", "2", "held", "own"}), "hh-h");
}

TEST(PageIndex, AFailedStoreTakesWhatIsBelowItAlong) {
    Index index(8);
    index.store({"a"});
    index.begin({"a", "b", "c"});
    index.store({"a", "b", "c", "d"});  // d is a hit below a pending c
    EXPECT_EQ(index.states({"a", "b", "c", "d"}), "hpph");
    EXPECT_EQ(index.finish({"b", "c"}, false), (Names{"d", "c", "b"}));
    EXPECT_EQ(index.states({"a", "b", "c", "d"}), "h---");
    EXPECT_EQ(index.free(), 7);
}

TEST(PageIndex, PagesThatAreInUseOutliveTheirKey) {
    Index index(8);
    index.begin({"a"});
    index.store({"a", "b"});
    index.begin({"a", "b", "c"});
    index.pin({"b"});
    index.pin({"b"});
    EXPECT_EQ(index.finish({"a"}, false), (Names{"c", "b", "a"}));
    EXPECT_EQ(index.states({"a", "b", "c"}), "---");
    EXPECT_EQ(index.index.counts().withheld, 2);
    EXPECT_EQ(index.free(), 6);
    // b can't be stored anew yet, and c would be below a gap.
    const auto again = index.begin({"a", "b", "c"});
    EXPECT_EQ(again->positions, (std::vector<size_t>{0}));
    EXPECT_EQ(index.index.counts().left_out, 2);
    EXPECT_ERROR(index.pin({"b"}), std::out_of_range, "not in the index");
    index.unpin({"b"});
    EXPECT_EQ(index.index.counts().withheld, 2);
    index.unpin({"b"});
    EXPECT_EQ(index.finish({"c"}), (Names{"c"}));
    EXPECT_EQ(index.index.counts().withheld, 0);
    EXPECT_EQ(index.free(), 7);
    EXPECT_EQ(index.begin({"a", "b", "c"})->positions, (std::vector<size_t>{1, 2}));
}

TEST(PageIndex, AStoreBelowAMissStoresNothing) {
    Index index(8);
    const auto store = index.begin({"b", "c"}, "a");
    ASSERT_TRUE(store);
    EXPECT_TRUE(store->positions.empty());
    EXPECT_EQ(index.free(), 8);
    EXPECT_EQ(index.index.counts().left_out, 2);
}

TEST(PageIndex, ResetDropsEverything) {
    Index index(8);
    index.store({"a", "b", "c"});
    index.begin({"x"});
    index.pin({"b"});
    EXPECT_EQ(index.index.reset(), 4);
    index.index.check();
    EXPECT_EQ(index.states({"a", "b", "c", "x"}), "----");
    EXPECT_EQ(index.free(), 6);
    EXPECT_EQ(index.index.reset(), 0);
    EXPECT_EQ(index.finish({"x"}), (Names{"x"}));
    index.unpin({"b"});
    EXPECT_EQ(index.free(), 8);
}

TEST(PageIndex, ResetWithNothingUnderWayIsANewIndexWithTheOldCounters) {
    for (const char* policy : {"lru", "fifo", "mru", "filo", "lfu", "slru", "priority"}) {
        Index index(4, policy), fresh(4, policy);
        index.store({"a", "b", "c"});
        index.store({"d", "e"});
        index.begin({"f"}, "z");
        index.pin({"d"});
        index.unpin({"d"});
        const IndexCounts before = index.index.counts();
        EXPECT_EQ(index.index.reset(), 4) << policy;
        index.index.check();
        const IndexCounts after = index.index.counts();
        EXPECT_EQ(after.hit + after.pending + after.withheld + after.pinned, 0);
        EXPECT_EQ(after.evicted, before.evicted);
        EXPECT_EQ(after.left_out, before.left_out);
        EXPECT_EQ(after.evicted, 1);
        EXPECT_EQ(after.left_out, 1);
        EXPECT_EQ(index.states({"a", "b", "c", "d", "e"}), "-----");
        for (Index* each : {&index, &fresh}) {  // what comes next is as in a new one
            each->store({"a", "b"});
            each->store({"x"});
        }
        EXPECT_EQ(index.index.pin(Index::keys({"a", "b", "x"})),
                  fresh.index.pin(Index::keys({"a", "b", "x"})));
        index.unpin({"a", "b", "x"});
        fresh.unpin({"a", "b", "x"});
        EXPECT_EQ(index.begin({"y", "z"})->evicted.front().key().bytes(),
                  fresh.begin({"y", "z"})->evicted.front().key().bytes())
            << policy;
        index.index.check();
    }
}

TEST(PageIndex, RefusesWithoutChangingAnything) {
    EXPECT_ERROR(PageIndex(4, "best"), std::invalid_argument, "lru, fifo");
    EXPECT_ERROR(PageIndex(-1, "lru"), std::invalid_argument, "-1");
    Index index(8);
    index.store({"a", "b"});
    index.begin({"p"});
    EXPECT_ERROR(index.pin({"a", "p"}), std::out_of_range, "b'p', is still being stored");
    index.pin({"a"});
    EXPECT_ERROR(index.unpin({"a", "b"}), std::invalid_argument, "b'b', is not pinned");
    EXPECT_ERROR(index.unpin({"a", "a"}), std::invalid_argument, "more often than it is pinned");
    EXPECT_ERROR(index.unpin({"a", "z"}), std::invalid_argument, "not in the index");
    EXPECT_ERROR(index.finish({"p", "a"}), std::invalid_argument, "stored already");
    EXPECT_ERROR(index.finish({"p", "p"}), std::invalid_argument, "twice");
    EXPECT_ERROR(index.finish({"p", "z"}), std::invalid_argument, "not in the index");
    EXPECT_ERROR(index.begin({"c", "d", "c"}), std::invalid_argument, "keys[2], b'c', is keys[0]");
    EXPECT_EQ(index.index.counts().pinned, 1);
    EXPECT_EQ(index.states({"a", "b", "p", "c", "d"}), "hhp--");
    index.unpin({"a"});
    EXPECT_EQ(index.finish({"p"}), Names{});
    index.index.check();
}

TEST(PageIndex, MillionsOfPagesAreThereAtOnce) {
    PageIndex index(10'000'000, "lru");  // all of its tables are made, hardly any memory is used
    EXPECT_EQ(index.begin_store(Index::keys({"a"}), nullptr, 0)->pages[0], 9'999'999);
    EXPECT_EQ(index.counts().pending, 1);
}

}  // namespace
}  // namespace hicache
