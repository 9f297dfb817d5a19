#include "core/page_history.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/page_keys.h"
#include "tests/expect_error.h"

namespace hicache {
namespace {

using Keys = std::vector<uint64_t>;

TEST(PageHistory, ANewOneKnowsNothing) {
    PageHistory history(4);
    EXPECT_EQ(history.capacity(), 4);
    EXPECT_EQ(history.size(), 0);
    EXPECT_FALSE(history.is_cached(7));
    EXPECT_EQ(history.loss(7), std::nullopt);
    history.check();
}

TEST(PageHistory, SizesThatItCannotHaveAreRefused) {
    for (const int64_t capacity : {int64_t{0}, int64_t{-1}, PageHistory::kMostEntries + 1}) {
        EXPECT_ERROR(PageHistory(capacity), std::invalid_argument, std::to_string(capacity));
    }
}

TEST(PageHistory, APageIsGoneForTheReasonThatTookIt) {
    PageHistory history(100);
    history.enter(Keys{1, 2, 3, 4});
    EXPECT_EQ(history.cached(), 4);
    EXPECT_EQ(history.loss(1), std::nullopt);
    history.leave(Keys{1}, Loss::kEvicted);
    history.leave(Keys{2}, Loss::kFailed);
    history.leave(Keys{3}, Loss::kFlushed);
    history.flush();
    EXPECT_EQ(history.loss(1), Loss::kEvicted);
    EXPECT_EQ(history.loss(2), Loss::kFailed);
    EXPECT_EQ(history.loss(3), Loss::kFlushed);
    EXPECT_EQ(history.loss(4), Loss::kFlushed);
    EXPECT_EQ(history.cached(), 0);
    history.enter(Keys{1, 2});
    EXPECT_TRUE(history.is_cached(1));
    history.flush();
    EXPECT_EQ(history.loss(1), Loss::kFlushed);
    EXPECT_EQ(history.loss(2), Loss::kFlushed);
    history.check();
}

TEST(PageHistory, AFailedSaveIsTheReasonUntilALaterOneGoesWell) {
    PageHistory history(100);
    history.enter(Keys{1, 2, 3, 4});
    history.save_failed(Keys{1, 2, 3, 4, 5});
    EXPECT_EQ(history.loss(1), std::nullopt);
    EXPECT_EQ(history.loss(5), std::nullopt);  // it is not cached: nothing is noted
    history.saved(Keys{2, 5});
    history.leave(Keys{1, 2}, Loss::kEvicted);
    history.enter(Keys{4});
    history.flush();
    EXPECT_EQ(history.loss(1), Loss::kFailed);
    EXPECT_EQ(history.loss(2), Loss::kEvicted);
    EXPECT_EQ(history.loss(3), Loss::kFailed);
    EXPECT_EQ(history.loss(4), Loss::kFlushed);
    history.saved(Keys{1});
    EXPECT_EQ(history.loss(1), Loss::kFailed);
    history.check();
}

TEST(PageHistory, WhatNeverCameFailedUnlessItIsThere) {
    PageHistory history(100);
    history.enter(Keys{1, 2});
    history.leave(Keys{2}, Loss::kEvicted);
    history.never_came(Keys{1, 2, 3});
    EXPECT_TRUE(history.is_cached(1));
    EXPECT_EQ(history.loss(2), Loss::kFailed);
    EXPECT_EQ(history.loss(3), Loss::kFailed);
    history.flush();
    EXPECT_EQ(history.loss(1), Loss::kFlushed);
    history.check();
}

TEST(PageHistory, TheFirstOneGoesButNoneThatIsCachedOrWasNotedAgain) {
    PageHistory history(4);
    history.enter(Keys{1, 2, 3, 4});
    history.leave(Keys{2, 3, 4}, Loss::kEvicted);  // noted again: one more turn each
    history.never_came(Keys{5});
    EXPECT_TRUE(history.is_cached(1));
    EXPECT_EQ(history.loss(2), std::nullopt);
    EXPECT_EQ(history.loss(3), Loss::kEvicted);
    EXPECT_EQ(history.loss(5), Loss::kFailed);
    history.never_came(Keys{6, 7});
    EXPECT_EQ(history.loss(3), std::nullopt);
    EXPECT_EQ(history.loss(4), std::nullopt);
    EXPECT_EQ(history.size(), 4);
    EXPECT_TRUE(history.is_cached(1));
    history.check();
}

TEST(PageHistory, MorePagesThanWereAnnouncedAreNotAllKnown) {
    PageHistory history(3);
    history.enter(Keys{1, 2, 3});
    history.save_failed(Keys{1, 2, 3});
    history.enter(Keys{4, 5});
    EXPECT_EQ(history.cached(), 3);
    EXPECT_TRUE(history.is_cached(4));
    history.check();
}

TEST(PageHistory, LossesEndAtThePageOfWhichNothingIsKnown) {
    const std::vector<int64_t> tokens{1, 2, 3, 4, 5, 6, 7, 8, 9};
    Keys keys(4);
    page_keys(tokens, 2, 11, keys);
    PageHistory history(100);
    const auto losses = [&](std::span<const int64_t> of, uint64_t above) {
        const auto found = history.losses(of, 2, above);
        return std::vector<int64_t>{found.evicted, found.flushed, found.failed};
    };
    using Counts = std::vector<int64_t>;
    EXPECT_EQ(losses(tokens, 11), (Counts{0, 0, 0}));
    history.enter(keys);
    EXPECT_EQ(losses(tokens, 11), (Counts{0, 0, 0}));  // what is there is not missed
    history.leave(Keys{keys[3]}, Loss::kEvicted);
    history.save_failed(Keys{keys[1]});
    history.flush();
    EXPECT_EQ(losses(tokens, 11), (Counts{1, 2, 1}));
    EXPECT_EQ(losses(std::span(tokens).first(7), 11), (Counts{0, 2, 1}));
    EXPECT_EQ(losses(std::span(tokens).first(1), 11), (Counts{0, 0, 0}));
    EXPECT_EQ(losses({}, 11), (Counts{0, 0, 0}));
    EXPECT_EQ(losses(std::span(tokens).subspan(4), keys[1]), (Counts{1, 1, 0}));
    EXPECT_EQ(losses(tokens, 12), (Counts{0, 0, 0}));
}

// The same with a queue and a map.
class NaiveHistory {
  public:
    explicit NaiveHistory(size_t capacity) : capacity_(capacity) {}

    void enter(uint64_t key) {
        Note& note = add(key);
        note.cached = true;
        note.loss = Loss::kFlushed;
    }
    void leave(uint64_t key, Loss loss) {
        Note& note = add(key);
        if (!(note.cached && note.loss == Loss::kFailed)) note.loss = loss;
        note.cached = false;
    }
    void set_failed(uint64_t key, bool failed) {
        const auto it = notes_.find(key);
        if (it != notes_.end() && it->second.cached) {
            it->second.loss = failed ? Loss::kFailed : Loss::kFlushed;
        }
    }
    void never_came(uint64_t key) {
        Note& note = add(key);
        if (!note.cached) note.loss = Loss::kFailed;
    }
    void flush() {
        for (auto& [key, note] : notes_)
            note.cached = false;
    }

    struct Note {
        bool cached = false;
        Loss loss = Loss::kFlushed;
        bool again = false;
    };
    std::map<uint64_t, Note> notes_;

  private:
    Note& add(uint64_t key) {
        if (const auto it = notes_.find(key); it != notes_.end()) {
            it->second.again = true;
            return it->second;
        }
        while (notes_.size() == capacity_) {
            const uint64_t first = order_.front();
            Note& note = notes_.at(first);
            order_.pop_front();
            if (note.cached || note.again) {
                note.again = false;
                order_.push_back(first);
            } else {
                notes_.erase(first);
            }
        }
        order_.push_back(key);
        return notes_[key];
    }

    size_t capacity_;
    std::deque<uint64_t> order_;
};

TEST(PageHistory, IsWhatAQueueAndAMapSay) {
    std::mt19937_64 random(3);
    for (const int64_t capacity : {2, 5, 16, 33, 200}) {
        PageHistory history(capacity);
        NaiveHistory naive(static_cast<size_t>(capacity));
        const uint64_t names = static_cast<uint64_t>(capacity) * 3;
        for (int step = 0; step < 6'000; ++step) {
            Keys keys;
            for (uint64_t n = random() % 4; n > 0; --n)
                keys.push_back((random() % names) * 64);  // few buckets: long chains
            const auto loss = static_cast<Loss>(random() % 3);
            switch (random() % 12) {
                case 0:
                case 1:
                case 2:
                case 3:
                    std::erase_if(keys, [&](uint64_t) {
                        return history.cached() + static_cast<int64_t>(keys.size()) >= capacity;
                    });
                    history.enter(keys);
                    for (const uint64_t key : keys)
                        naive.enter(key);
                    break;
                case 4:
                case 5:
                case 6:
                case 7:
                    history.leave(keys, loss);
                    for (const uint64_t key : keys)
                        naive.leave(key, loss);
                    break;
                case 8:
                    history.save_failed(keys);
                    for (const uint64_t key : keys)
                        naive.set_failed(key, true);
                    break;
                case 9:
                    history.saved(keys);
                    for (const uint64_t key : keys)
                        naive.set_failed(key, false);
                    break;
                case 10:
                    history.never_came(keys);
                    for (const uint64_t key : keys)
                        naive.never_came(key);
                    break;
                default:
                    if (random() % 20 != 0) break;
                    history.flush();
                    naive.flush();
            }
            ASSERT_EQ(history.size(), static_cast<int64_t>(naive.notes_.size()));
            const uint64_t key = (random() % names) * 64;
            const auto it = naive.notes_.find(key);
            const bool cached = it != naive.notes_.end() && it->second.cached;
            ASSERT_EQ(history.is_cached(key), cached);
            if (it == naive.notes_.end() || cached) {
                ASSERT_EQ(history.loss(key), std::nullopt);
            } else {
                ASSERT_EQ(history.loss(key), it->second.loss);
            }
            if (step % 50 == 0) history.check();
        }
        history.check();
    }
}

}  // namespace
}  // namespace hicache
