#include "core/key_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <stdexcept>
#include <string>

#include "tests/expect_error.h"

namespace hicache {
namespace {

std::string name_of(int64_t n) {
    return "key " + std::to_string(n);
}

TEST(Key, HasOneTo64Bytes) {
    EXPECT_ERROR(Key(""), std::invalid_argument, "0 bytes");
    EXPECT_ERROR(Key(std::string(65, 'x')), std::invalid_argument, "65 bytes");
    const std::string longest(64, 'x');
    EXPECT_EQ(Key(longest).bytes(), longest);
    EXPECT_EQ(StoredKey(Key(longest)).key().bytes(), longest);
}

TEST(Key, TextAndBytesAreTheSameKey) {
    EXPECT_EQ(Key("abc", true), Key("abc", false));
    EXPECT_TRUE(StoredKey(Key("abc", true)).key().text());
    EXPECT_FALSE(StoredKey(Key("abc", false)).key().text());
}

TEST(Key, LengthIsPartOfIt) {
    const std::string zeros(9, '\0');
    for (size_t n = 1; n < 9; ++n) {
        const Key shorter(std::string_view(zeros).substr(0, n));
        const Key longer(std::string_view(zeros).substr(0, n + 1));
        EXPECT_FALSE(shorter == longer);
        EXPECT_NE(shorter.hash(), longer.hash());
    }
}

TEST(Key, IsDescribedAsPythonWould) {
    EXPECT_EQ(Key("abc", true).describe(), "'abc'");
    EXPECT_EQ(Key(std::string_view("a'\x00\xff", 4)).describe(), "b'a\\x27\\x00\\xff'");
}

TEST(KeyTable, AgreesWithAMap) {
    constexpr int64_t kPages = 500;
    KeyTable table(kPages);
    std::map<std::string, uint32_t> model;
    std::vector<uint32_t> free_pages(kPages);
    for (uint32_t i = 0; i < kPages; ++i)
        free_pages[i] = i;
    std::mt19937 random(3);
    for (int step = 0; step < 20000; ++step) {
        const std::string name = name_of(random() % 900);
        const auto known = model.find(name);
        ASSERT_EQ(table.find(Key(name)), known == model.end() ? kNoPage : known->second);
        if (known != model.end()) {
            table.erase(known->second);
            free_pages.push_back(known->second);
            model.erase(known);
        } else if (!free_pages.empty()) {
            std::swap(free_pages[random() % free_pages.size()], free_pages.back());
            model[name] = free_pages.back();
            table.insert(Key(name), free_pages.back());
            free_pages.pop_back();
        }
        ASSERT_EQ(table.size(), static_cast<int64_t>(model.size()));
        if (step % 100 == 0) table.check();
    }
    std::vector<std::string> names;
    for (int64_t n = 0; n < 900; ++n)
        names.push_back(name_of(n));
    std::vector<Key> keys(names.begin(), names.end());
    std::vector<uint32_t> pages(keys.size());
    table.find_all(keys, pages);
    for (size_t i = 0; i < names.size(); ++i) {
        const auto known = model.find(names[i]);
        EXPECT_EQ(pages[i], known == model.end() ? kNoPage : known->second);
    }
    EXPECT_EQ(table.pages().size(), model.size());
}

TEST(KeyTable, FillsAndEmpties) {
    for (const int64_t num_pages : {0, 1, 2, 3, 64, 1000}) {
        KeyTable table(num_pages);
        for (int64_t n = 0; n < num_pages; ++n)
            table.insert(Key(name_of(n)), static_cast<uint32_t>(n));
        table.check();
        for (int64_t n = 0; n < num_pages; ++n) {
            ASSERT_EQ(table.key(static_cast<uint32_t>(n)).bytes(), name_of(n));
            table.erase(static_cast<uint32_t>(n));
        }
        EXPECT_EQ(table.size(), 0);
        EXPECT_TRUE(table.pages().empty());
        EXPECT_EQ(table.find(Key("key 0")), kNoPage);
        table.check();
    }
}

TEST(FindRepeat, NamesBothPositions) {
    const std::vector<Key> keys{Key("a"), Key("b", true), Key("c"), Key("b")};
    EXPECT_EQ(find_repeat(keys), std::pair(size_t{1}, size_t{3}));
    EXPECT_EQ(find_repeat(std::span(keys).first(3)), std::nullopt);
    EXPECT_EQ(find_repeat({}), std::nullopt);
}

}  // namespace
}  // namespace hicache
