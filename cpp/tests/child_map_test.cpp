#include "core/child_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace hicache {
namespace {

struct Child {
    uint32_t hash;
    int name;
};

void* find(const ChildMap& map, const Child& child) {
    const auto is_it = [&](void* other) { return static_cast<Child*>(other)->name == child.name; };
    return map.find(child.hash, is_it);
}

// Few hashes, or hashes that differ in their highest or lowest bits only: parts cannot be divided.
TEST(ChildMap, ChildrenWithTheSameHashAreKeptApart) {
    for (const uint32_t step : {0U, 1U, 1U << 30, 1U << 28}) {
        std::vector<Child> children;
        for (int i = 0; i < 200; ++i)
            children.push_back({static_cast<uint32_t>(i % 4) * step, i});
        ChildMap map;
        for (Child& child : children)
            map.add(child.hash, &child);
        for (Child& child : children)
            EXPECT_EQ(find(map, child), &child);
        EXPECT_FALSE(map.remove(children[0].hash + 12345, &children[0]));
        EXPECT_TRUE(map.remove(children[0].hash, &children[0]));
        EXPECT_FALSE(map.remove(children[0].hash, &children[0]));
        EXPECT_EQ(find(map, children[0]), nullptr);
        EXPECT_EQ(map.size(), 199U);
    }
}

TEST(ChildMap, HoldsWhatAListHoldsInItsOrder) {
    std::mt19937_64 random(5);
    std::vector<Child> children;
    children.reserve(20000);
    std::vector<void*> expected;
    ChildMap map;
    for (int i = 0; i < 20000; ++i) {
        children.push_back({static_cast<uint32_t>(random()) >> (i % 3 == 0 ? 26 : 0), i});
        map.add(children.back().hash, &children.back());
        expected.push_back(&children.back());
        if (random() % 3 == 0) {
            const auto leaves = static_cast<ptrdiff_t>(random() % expected.size());
            auto* child = static_cast<Child*>(expected[static_cast<size_t>(leaves)]);
            ASSERT_TRUE(map.remove(child->hash, child));
            expected.erase(expected.begin() + leaves);
        }
    }
    EXPECT_EQ(map.children(), expected);
    EXPECT_EQ(map.size(), expected.size());
    for (void* child : expected)
        EXPECT_EQ(find(map, *static_cast<Child*>(child)), child);
    for (int i = 0; i < 1000; ++i) {
        ASSERT_EQ(map.pop(), expected.back());
        expected.pop_back();
    }
    for (void* child : expected)
        EXPECT_TRUE(map.remove(static_cast<Child*>(child)->hash, child));
    EXPECT_EQ(map.size(), 0U);
    EXPECT_TRUE(map.children().empty());
    map.add(children[0].hash, children.data());
    EXPECT_EQ(map.pop(), children.data());
}

TEST(ChildMap, OneChildIsAMapToo) {
    Child a{7, 0}, b{7, 1};
    ChildMap map;
    map.add(7, &a);
    EXPECT_EQ(find(map, a), &a);
    EXPECT_EQ(find(map, b), nullptr);
    EXPECT_FALSE(map.remove(7, &b) || map.remove(8, &a) || map.replace(7, &b, &a));
    EXPECT_TRUE(map.replace(7, &a, &b));
    EXPECT_EQ(map.children(), std::vector<void*>{&b});
    map.add(7, &a);
    EXPECT_EQ(map.children(), (std::vector<void*>{&b, &a}));
    EXPECT_TRUE(map.remove(7, &b));
    EXPECT_EQ(map.pop(), &a);
    EXPECT_EQ(map.size(), 0U);
    map.add(7, &b);
    EXPECT_EQ(map.pop(), &b);
    EXPECT_TRUE(map.children().empty());
}

TEST(ChildMap, OneThatReplacesAnotherHasItsPlace) {
    Child a{7, 0}, b{7, 1}, c{7, 2}, d{8, 3};
    ChildMap map;
    for (Child* child : {&a, &b, &d})
        map.add(child->hash, child);
    EXPECT_TRUE(map.replace(7, &a, &c));
    EXPECT_FALSE(map.replace(7, &a, &c));
    EXPECT_FALSE(map.replace(8, &b, &a));
    EXPECT_EQ(map.children(), (std::vector<void*>{&c, &b, &d}));
    map.clear();
    EXPECT_EQ(map.size(), 0U);
    EXPECT_EQ(find(map, c), nullptr);
}

}  // namespace
}  // namespace hicache
