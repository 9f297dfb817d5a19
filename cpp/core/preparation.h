// Makes a range of host memory ready: touched, registered with whoever copies it, in the order of
// its addresses, while what is ready is used already.
//
// Several threads touch it; each registration has a thread of its own that follows them, chunk by
// chunk. What all of them have done from the beginning on is ready. Any bytes will do: a mapping of
// this process, or a file that somebody else has mapped; their content stays as it is.
//
// Thread-safe. Fork: in a child only the counters may be asked for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "core/fence.h"
#include "core/pinned_chunks.h"

namespace hicache {

inline constexpr int64_t kPrepareAll = int64_t{1} << 62;
// Small enough that registering it holds up nobody for more than some milliseconds.
inline constexpr int64_t kPreparedAtOnce = int64_t{64} << 20;

struct PreparationOptions {
    int threads = 0;                    // that touch, 0 = one a core, but for one that others have
    bool prefault = true;               // false: memory is used where it is written (sparse)
    int64_t first_bytes = kPrepareAll;  // touched when the constructor returns
    int64_t step_bytes = kPreparedAtOnce;  // registered at once, unless told otherwise
    bool held = false;                     // no more than that until step() (for tests)
};

// What somebody has to be told. error: something that was asked for as a must did not come.
struct PreparationNote {
    bool error;
    std::string text;
};

class Preparation {
  public:
    // Throws: std::system_error with the errno if the first bytes cannot be touched, or there are
    // no threads.
    Preparation(std::byte* begin, int64_t bytes, const PreparationOptions& options);
    ~Preparation();  // as stop()
    Preparation(const Preparation&) = delete;
    Preparation& operator=(const Preparation&) = delete;

    [[nodiscard]] int64_t step_bytes() const { return options_.step_bytes; }

    // The first so many bytes are ready. Falls only when a registration is attached, never below
    // what take_ready() has said.
    [[nodiscard]] int64_t ready_bytes() const { return ready_.load(std::memory_order_acquire); }
    // The same, and from now on somebody may be using them: whoever attaches a registration
    // registers those before anything else.
    int64_t take_ready();
    // Whether nothing more will become ready.
    [[nodiscard]] bool ended() const;
    // Notes since the last call, errors last.
    [[nodiscard]] std::vector<PreparationNote> take_notes();
    // Waits until all is ready; false if the limit passed first.
    // Throws: std::runtime_error that says why it will never be.
    bool wait_ready(Timeout timeout);

    // Registers what is touched, and what is touched later on. Returns once the chunks with the
    // first bytes and with those that are in use are done; the others follow on a thread of ours.
    // Throws: what pin_next() does for those, with nothing left registered; std::runtime_error if
    // they cannot be touched. Later on that is a note, and no more becomes ready.
    void attach(const std::shared_ptr<PinnedChunks>& chunks);
    // Ends that thread; the chunks are the caller's. Idempotent.
    void detach(const std::shared_ptr<PinnedChunks>& chunks) noexcept;

    // Bytes registered and bytes refused, of the attached registration that has fewest registered.
    // All zero without one.
    struct Registered {
        int64_t pinned = 0;
        int64_t pageable = 0;
    };
    [[nodiscard]] Registered registered() const;

    // While held: lets one more step be made ready, and waits for it.
    void step();
    // Lets everything be made ready.
    void unhold();

    // Ends all threads of ours; what is ready stays so. Idempotent.
    void stop() noexcept;

  private:
    struct Follower {
        std::shared_ptr<PinnedChunks> chunks;
        bool stopping = false;
        std::thread thread;
    };
    using Lock = std::unique_lock<std::mutex>;

    void start();
    void touch_pieces();
    void follow(Follower& mine);
    // Waits until so many bytes are touched. Requires: the lock.
    void require_touched(Lock& lock, int64_t bytes);
    // Requires, the next four: the lock.
    [[nodiscard]] int64_t touched() const;
    [[nodiscard]] bool stuck() const { return stopping_ || failure_; }
    void fail(std::string text, bool error);
    void update();

    std::byte* const begin_;
    const int64_t bytes_;
    const PreparationOptions options_;
    const int64_t first_bytes_;

    mutable std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    int64_t limit_;            // nothing from there on is touched yet
    int64_t next_ = 0;         // where the next piece begins
    std::set<int64_t> begun_;  // where pieces begin that are being touched, or could not be
    int64_t taken_ = 0;
    bool stopping_ = false;
    std::optional<std::string> failure_;  // why not all will be ready
    std::map<int64_t, int> untouchable_;  // errno by where the piece begins
    std::vector<PreparationNote> notes_;
    std::list<Follower> followers_;
    std::vector<std::thread> touchers_;

    std::atomic<int64_t> ready_{0};
    std::mutex ending_;  // one stop() or detach() at a time
};

}  // namespace hicache
