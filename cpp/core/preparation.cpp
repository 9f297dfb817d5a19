#include "core/preparation.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

#include "core/errors.h"
#include "core/touching.h"
#include "core/waiting.h"

namespace hicache {
namespace {

// Between two chunks whoever else waits for the driver gets at it.
constexpr std::chrono::microseconds kPause{200};

// These threads do not push a running one off its core when they wake, and are pushed off by one
// that wakes.
void yield_to_others() {
#ifdef SCHED_BATCH
    const sched_param priority{};
    pthread_setschedparam(pthread_self(), SCHED_BATCH, &priority);  // a wish: may fail
#endif
}

}  // namespace

Preparation::Preparation(std::byte* begin, int64_t bytes, const PreparationOptions& options)
    : begin_(begin),
      bytes_(bytes),
      options_(options),
      first_bytes_(std::min(options.first_bytes, bytes)),
      limit_(options.held ? first_bytes_ : bytes) {
    try {
        start();
        Lock lock(mutex_);
        update();
        changed_.wait(lock, [this] { return stuck() || touched() >= first_bytes_; });
        if (failure_) {
            throw std::system_error(untouchable_.begin()->second, std::generic_category());
        }
    } catch (...) {
        stop();
        throw;
    }
}

Preparation::~Preparation() {
    stop();
}

void Preparation::start() {
    if (!options_.prefault) return;
    const int64_t pieces = (bytes_ + kTouchedAtOnce - 1) / kTouchedAtOnce;
    const int64_t count = std::min<int64_t>(touching_threads(options_.threads), pieces);
    for (int64_t i = 0; i < count; ++i)
        touchers_.emplace_back([this] { touch_pieces(); });
}

int64_t Preparation::touched() const {
    if (!options_.prefault) return std::min(limit_, bytes_);
    return begun_.empty() ? next_ : *begun_.begin();
}

void Preparation::touch_pieces() {
    yield_to_others();
    Lock lock(mutex_);
    const auto over = [this] { return stuck() || !untouchable_.empty() || next_ >= bytes_; };
    for (;;) {
        changed_.wait(lock, [&] { return over() || next_ < limit_; });
        if (over()) return;
        const int64_t at = next_;
        const int64_t size = std::min(kTouchedAtOnce, std::min(limit_, bytes_) - at);
        next_ += size;
        begun_.insert(at);
        lock.unlock();
        const int error = touch(begin_ + at, size);
        lock.lock();
        if (error == 0) {
            begun_.erase(at);
        } else {
            untouchable_[at] = error;
        }
        // Only once no other piece is under way is it known where the memory ends.
        if (!untouchable_.empty() && begun_.size() == untouchable_.size()) {
            fail(message("Host memory ends at ", touched(), " of ", bytes_,
                         " bytes: touching more at ", static_cast<void*>(begin_ + touched()),
                         " failed: ", std::strerror(untouchable_.begin()->second),
                         "; the pool keeps the pages before that. Ask for fewer host pages."),
                 false);
        }
        update();
    }
}

void Preparation::fail(std::string text, bool error) {
    failure_ = text;
    notes_.push_back({error, std::move(text)});
    changed_.notify_all();
}

void Preparation::update() {
    int64_t ready = touched();
    for (const Follower& each : followers_)
        ready = std::min(ready, each.chunks->done_bytes());
    ready_.store(std::max(ready, taken_), std::memory_order_release);
    changed_.notify_all();
}

int64_t Preparation::take_ready() {
    std::lock_guard lock(mutex_);
    taken_ = ready_bytes();
    return taken_;
}

bool Preparation::ended() const {
    if (ready_bytes() == bytes_) return true;
    std::lock_guard lock(mutex_);
    return stuck();
}

std::vector<PreparationNote> Preparation::take_notes() {
    std::lock_guard lock(mutex_);
    std::vector<PreparationNote> notes = std::exchange(notes_, {});
    std::ranges::stable_partition(notes, [](const PreparationNote& each) { return !each.error; });
    return notes;
}

bool Preparation::wait_ready(Timeout timeout) {
    Lock lock(mutex_);
    const bool over = wait_until_ready(changed_, lock, timeout,
                                       [this] { return stuck() || ready_bytes() == bytes_; });
    if (ready_bytes() == bytes_) return true;
    if (failure_) bad_state(*failure_);
    if (stopping_) {
        bad_state("The preparation of host memory was ended at ", ready_bytes(), " of ", bytes_,
                  " bytes: its pool was closed.");
    }
    return over;
}

void Preparation::require_touched(Lock& lock, int64_t bytes) {
    limit_ = std::max(limit_, bytes);
    update();
    changed_.wait(lock, [&] { return stuck() || touched() >= bytes; });
    if (touched() < bytes) bad_state(failure_.value_or("The host pool was closed."));
}

void Preparation::attach(const std::shared_ptr<PinnedChunks>& chunks) {
    Lock lock(mutex_);
    Follower& mine = followers_.emplace_back(Follower{chunks, false, {}});
    update();
    try {
        while (chunks->done_bytes() <
               std::min(std::max({first_bytes_, taken_, int64_t{1}}), bytes_)) {
            require_touched(lock, chunks->next_end());
            lock.unlock();
            chunks->pin_next();
            lock.lock();
            update();
        }
        if (stopping_) bad_state("The host pool was closed.");
        if (chunks->done_bytes() < bytes_)
            mine.thread = std::thread([this, &mine] { follow(mine); });
    } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        followers_.remove_if([&](const Follower& each) { return &each == &mine; });
        update();
        lock.unlock();
        chunks->unpin_all();
        throw;
    }
}

void Preparation::follow(Follower& mine) {
    yield_to_others();
    PinnedChunks& chunks = *mine.chunks;
    bool told = chunks.refusal().has_value();
    Lock lock(mutex_);
    while (chunks.done_bytes() < bytes_) {
        const int64_t end = chunks.next_end();
        changed_.wait(lock, [&] { return mine.stopping || stuck() || touched() >= end; });
        if (mine.stopping || stopping_ || touched() < end) return;
        lock.unlock();
        std::optional<std::string> error;
        try {
            chunks.pin_next();
        } catch (const std::exception& failed) {
            error = message(failed.what(), " The host pool ends at ", chunks.done_bytes(), " of ",
                            bytes_, " bytes.");
        }
        std::this_thread::sleep_for(kPause);
        lock.lock();
        if (error) {
            fail(std::move(*error), true);
            return;
        }
        if (const auto refusal = told ? std::nullopt : chunks.refusal()) {
            told = true;
            notes_.push_back({false, message(*refusal,
                                             "; that chunk stays pageable, and copies of "
                                             "its pages are several times slower.")});
        }
        update();
    }
}

void Preparation::detach(const std::shared_ptr<PinnedChunks>& chunks) noexcept {
    std::lock_guard one(ending_);
    Lock lock(mutex_);
    const auto mine =
        std::ranges::find_if(followers_, [&](const Follower& f) { return f.chunks == chunks; });
    if (mine == followers_.end()) return;
    mine->stopping = true;
    changed_.notify_all();
    lock.unlock();
    if (mine->thread.joinable()) mine->thread.join();
    lock.lock();
    followers_.erase(mine);
    update();
}

Preparation::Registered Preparation::registered() const {
    std::lock_guard lock(mutex_);
    std::optional<Registered> least;
    for (const Follower& each : followers_) {
        const Registered of{each.chunks->pinned_bytes(), each.chunks->pageable_bytes()};
        if (!least || of.pinned < least->pinned) least = of;
    }
    return least.value_or(Registered{});
}

void Preparation::step() {
    Lock lock(mutex_);
    limit_ = std::min(limit_ + options_.step_bytes, bytes_);
    update();
    // Of a chunk that is registered as a whole nothing is ready before its end.
    const auto within_reach = [this] {
        int64_t reach = limit_;
        for (const Follower& each : followers_) {
            const int64_t chunk = each.chunks->chunk_bytes();
            if (limit_ < bytes_) reach = std::min(reach, limit_ / chunk * chunk);
        }
        return reach;
    };
    changed_.wait(lock, [&] { return stuck() || ready_bytes() >= within_reach(); });
}

void Preparation::unhold() {
    std::lock_guard lock(mutex_);
    limit_ = bytes_;
    update();
}

void Preparation::stop() noexcept {
    std::lock_guard one(ending_);
    {
        std::lock_guard lock(mutex_);
        stopping_ = true;  // attach() starts no thread any more
        changed_.notify_all();
    }
    for (std::thread& each : touchers_) {
        if (each.joinable()) each.join();
    }
    for (;;) {
        std::thread* running = nullptr;
        {
            std::lock_guard lock(mutex_);
            for (Follower& each : followers_) {
                if (each.thread.joinable()) running = &each.thread;
            }
        }
        if (running == nullptr) return;
        running->join();  // only detach() lets go of one that was started, and not meanwhile
    }
}

}  // namespace hicache
