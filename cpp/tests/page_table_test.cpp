#include "core/page_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "tests/expect_error.h"
#include "tests/page_table_images.h"

namespace hicache {
namespace {

std::vector<int64_t> numbers(int64_t first, int64_t count) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < count; ++i)
        values.push_back(first + i);
    return values;
}

// A chain 4, 7, 2 with a fork below 7: 5, 6; and one page of another namespace.
Image some_pages() {
    Image image;
    PageTable table = image.table();
    static_cast<void>(table.restore());
    table.publish(std::vector<int64_t>{4, 7, 2}, std::nullopt, bytes_of("a"), numbers(0, 9), 0);
    table.publish(std::vector<int64_t>{5, 6}, 7, {}, numbers(50, 6), 3);
    table.publish(std::vector<int64_t>{1}, std::nullopt, bytes_of("b"), numbers(0, 3), -2);
    return image;
}

TEST(PageTable, RestoresChainsAsLongAsTheyAre) {
    Image image = some_pages();
    const Found found = restore(image);
    ASSERT_EQ(found.restored.nodes.size(), 4u);
    EXPECT_EQ(found.restored.damaged, 0);
    EXPECT_EQ(found.pages.at(2), (Prefix{"a", numbers(0, 9)}));
    EXPECT_EQ(found.pages.at(6).second.size(), 12u);
    EXPECT_EQ(found.pages.at(1), (Prefix{"b", numbers(0, 3)}));
    for (const RestoredNode& node : found.restored.nodes) {
        const int64_t first = found.restored.pages[static_cast<size_t>(node.first)];
        if (first == 4) {  // its latest use is that of page 6
            EXPECT_EQ(node.size, 2);
            EXPECT_EQ(node.created, 1);
            EXPECT_EQ(node.used, 5);
        }
        if (first == 5) {
            EXPECT_EQ(node.priority, 3);
        }
        if (first == 1) {
            EXPECT_EQ(node.priority, -2);
        }
    }
}

TEST(PageTable, GoesOnWhereItWas) {
    Image image = some_pages();
    PageTable table = image.table();
    static_cast<void>(table.restore());
    table.withdraw(std::vector<int64_t>{2, 0, 11});  // pages that aren't published do not matter
    table.publish(std::vector<int64_t>{9}, 7, {}, numbers(6, 3), 0);
    const Found found = restore(image);
    EXPECT_EQ(found.pages.at(9), (Prefix{"a", numbers(0, 9)}));
    EXPECT_EQ(found.pages.count(2), 0u);
    for (const RestoredNode& node : found.restored.nodes) {
        if (found.restored.pages[static_cast<size_t>(node.first)] == 9) {
            EXPECT_EQ(node.used, 7);
        }
    }
}

TEST(PageTable, ANewGenerationEndsEverything) {
    Image image = some_pages();
    PageTable table = image.table();
    static_cast<void>(table.restore());
    table.next_generation();
    EXPECT_FALSE(table.published(4));
    table.publish(std::vector<int64_t>{7}, std::nullopt, bytes_of("a"), numbers(0, 3), 0);
    const Found found = restore(image);
    EXPECT_EQ(found.pages, (std::map<int64_t, Prefix>{{7, {"a", numbers(0, 3)}}}));
    EXPECT_EQ(found.restored.damaged, 0);
    image.generation ^= uint64_t{1} << 40;
    EXPECT_FALSE(PageTable::is_generation(image.generation));
}

TEST(PageTable, PrioritiesChangeInOneStore) {
    Image image = some_pages();
    PageTable table = image.table();
    static_cast<void>(table.restore());
    table.set_priority(std::vector<int64_t>{4, 7, 0}, int64_t{1} << 40);
    const Found found = restore(image);
    EXPECT_EQ(found.pages.size(), 6u);
    for (const RestoredNode& node : found.restored.nodes) {
        if (node.size == 2 && node.parent < 0) {
            EXPECT_EQ(node.priority, (int64_t{1} << 31) - 1);
        }
    }
}

TEST(PageTable, RefusesWhatDoesNotFit) {
    Image image = some_pages();
    PageTable table = image.table();
    static_cast<void>(table.restore());
    const Image before = image;
    const auto publish = [&](std::vector<int64_t> pages, std::optional<int64_t> ahead,
                             int64_t tokens, const std::string& name = "a") {
        table.publish(pages, ahead, bytes_of(name), numbers(0, tokens), 0);
    };
    EXPECT_ERROR(publish({12}, std::nullopt, 3), std::invalid_argument, "Page 12");
    EXPECT_ERROR(publish({-1}, std::nullopt, 3), std::invalid_argument, "Page -1");
    EXPECT_ERROR(publish({3, 4}, 1, 6), std::invalid_argument, "Page 4 is published already");
    EXPECT_ERROR(publish({3}, 0, 3), std::invalid_argument, "Page 0, in front");
    EXPECT_ERROR(publish({3}, std::nullopt, 4), std::invalid_argument, "but 4 tokens");
    EXPECT_ERROR(publish({3}, std::nullopt, 3, std::string(64, 'x')), std::invalid_argument,
                 "64 bytes");
    EXPECT_ERROR(table.withdraw(std::vector<int64_t>{12}), std::invalid_argument, "12 pages");
    EXPECT_EQ(image.words, before.words);
    publish({3}, std::nullopt, 3, std::string(63, 'x'));
    EXPECT_TRUE(table.published(3));
}

TEST(PageTable, NoDamagedByteIsServed) {
    const Image whole = some_pages();
    Image copy = whole;
    const Found right = restore(copy);
    const size_t entry = static_cast<size_t>(PageTable::entry_bytes(kTestPageSize));
    for (const int64_t page : {4, 7, 6}) {
        // Behind 4 stand 7, 2, 5, 6; behind 7 stand 2, 5, 6.
        const size_t lost = page == 4 ? 5 : page == 7 ? 4 : 1;
        for (size_t at = 0; at < entry; ++at) {
            Image damaged = whole;
            damaged.entries()[static_cast<size_t>(page) * entry + at] ^= std::byte{0x10};
            const Found found = restore(damaged);
            EXPECT_EQ(found.pages.count(page), 0u) << "byte " << at;
            EXPECT_EQ(found.pages.size(), right.pages.size() - lost) << "byte " << at;
            for (const auto& [number, prefix] : found.pages)
                EXPECT_EQ(prefix, right.pages.at(number));
            // Bytes 16 to 23 are the generation: such an entry is of another one, not damaged.
            const bool old = at >= 16 && at < 24;
            EXPECT_EQ(found.restored.damaged, static_cast<int64_t>(lost) - old) << "byte " << at;
            Image again = damaged;  // and what was not served is gone for good
            EXPECT_EQ(restore(again).pages, found.pages);
        }
    }
}

TEST(PageTable, AnEntryOfAnotherPageOrFormatProvesNothing) {
    Image image = some_pages();
    const auto entry = PageTable::entry_bytes(kTestPageSize);
    std::copy_n(image.entries() + 4 * entry, entry, image.entries() + 8 * entry);
    Found found = restore(image);
    EXPECT_EQ(found.pages.count(8), 0u);
    EXPECT_EQ(found.restored.damaged, 1);
    PageTable other(image.entries(), &image.generation, kTestPages, kTestPageSize, "another one");
    EXPECT_EQ(other.restore().nodes.size(), 0u);
}

// Random work; a copy of everything after each store is restored, as after a kill there. Pages get
// other bytes only while they are not published.
class EveryStore : public testing::Test {
  protected:
    EveryStore() : table_(image_.table()) {
        static_cast<void>(table_.restore());
        table_.watch_stores([this] { look(); });
    }

    void look() {
        ++images_;
        Image copy = image_;
        const Found found = restore(copy);
        EXPECT_EQ(found.restored.damaged, 0);
        for (const auto& [page, prefix] : found.pages) {
            EXPECT_EQ(image_.bytes[static_cast<size_t>(page)], prefix);
            EXPECT_TRUE(published_.count(page) || coming_.count(page)) << "page " << page;
        }
        for (const auto& [page, prefix] : published_)
            EXPECT_TRUE(found.pages.count(page) || going_.count(page)) << "page " << page;
    }

    void publish(std::mt19937& random) {
        std::vector<int64_t> open;
        for (int64_t page = 0; page < kTestPages; ++page) {
            if (!published_.count(page)) open.push_back(page);
        }
        std::shuffle(open.begin(), open.end(), random);
        open.resize(std::min<size_t>(open.size(), random() % 4));
        if (open.empty()) return;
        std::optional<int64_t> before;
        Prefix prefix{random() % 2 ? "x" : "", {}};
        if (!published_.empty() && random() % 4) {
            const auto at = std::next(published_.begin(), random() % published_.size());
            before = at->first;
            prefix = at->second;
        }
        std::vector<int64_t> tokens;
        for (const int64_t page : open) {
            for (int64_t i = 0; i < kTestPageSize; ++i)
                tokens.push_back(static_cast<int64_t>(next_token_++));
            prefix.second.insert(prefix.second.end(), tokens.end() - kTestPageSize, tokens.end());
            image_.bytes[static_cast<size_t>(page)] = prefix;  // the copy lands
            coming_[page] = prefix;
        }
        look();
        table_.publish(open, before, bytes_of(prefix.first), tokens, 0);
        published_.insert(coming_.begin(), coming_.end());
        coming_.clear();
        look();
    }

    // Everything that stands on a prefix, in any order.
    void withdraw(std::mt19937& random) {
        if (published_.empty()) return;
        const Prefix stem = std::next(published_.begin(), random() % published_.size())->second;
        std::vector<int64_t> pages;
        for (const auto& [page, prefix] : published_) {
            if (prefix.first != stem.first || prefix.second.size() < stem.second.size()) continue;
            if (!std::equal(stem.second.begin(), stem.second.end(), prefix.second.begin()))
                continue;
            pages.push_back(page);
            going_.insert(page);
        }
        std::shuffle(pages.begin(), pages.end(), random);
        table_.withdraw(pages);
        for (const int64_t page : pages) {
            published_.erase(page);
            image_.bytes[static_cast<size_t>(page)] = {"other bytes", {}};
        }
        going_.clear();
        look();
    }

    void renounce() {
        for (const auto& [page, prefix] : published_)
            going_.insert(page);
        table_.next_generation();
        published_.clear();
        going_.clear();
        for (Prefix& bytes : image_.bytes)
            bytes = {"other bytes", {}};
        look();
    }

    Image image_;
    PageTable table_;
    std::map<int64_t, Prefix> published_;
    std::map<int64_t, Prefix> coming_;
    std::set<int64_t> going_;
    uint64_t next_token_ = 0;
    int64_t images_ = 0;
};

TEST_F(EveryStore, LeavesWhatWasPublishedAndNothingElse) {
    std::mt19937 random(11);
    for (int step = 0; step < 300 && !HasFailure(); ++step) {
        const auto kind = random() % 20;
        if (kind < 11) {
            publish(random);
        } else if (kind < 18) {
            withdraw(random);
        } else if (kind == 18) {
            renounce();
        } else if (!published_.empty()) {
            table_.set_priority(std::vector<int64_t>{published_.begin()->first}, step);
        }
    }
    EXPECT_GT(images_, 3000);
}

}  // namespace
}  // namespace hicache
