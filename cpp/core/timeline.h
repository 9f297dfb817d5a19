// A recording of what happened when: named spans of time on tracks, the last so many of them.
//
// Off until start(), and then one relaxed load for whoever asks on(). record() takes a short lock
// and writes into memory that start() has reserved; when the ring is full the oldest span goes.
// Thread-safe. Fork: in a child spans are dropped in silence, and what reads the ring throws
// std::runtime_error.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/process.h"

namespace hicache {

enum class Track : uint8_t { kScheduler, kCompute, kWaits, kHostToDevice, kDeviceToHost };
inline constexpr int kTracks = 5;

// "scheduler", "compute", "waits", "h2d" or "d2h".
[[nodiscard]] std::string_view name(Track track);
// Throws: std::invalid_argument for anything else.
[[nodiscard]] Track parse_track(std::string_view name);

enum class SpanKind : uint8_t {
    kCall,    // work of a thread: `text` is its name
    kQueued,  // a copy before its start
    kCopy,    // a copy from its start to its end; `text` says why it failed
    kLayers,  // a part of a copy: what landed at `end`, since what landed before
    kWait,    // a thread or a stream stood still for a layer
};

// "call", "queued", "copy", "layers" or "wait".
[[nodiscard]] std::string_view name(SpanKind kind);

// Times are nanoseconds of std::chrono::steady_clock. Numbers are -1 where they say nothing.
struct TimelineSpan {
    Track track = Track::kCompute;
    SpanKind kind = SpanKind::kCall;
    bool seen_by_host = false;  // of a device's work: the times at which a thread of ours saw it
    int64_t begin = 0;
    int64_t end = 0;                 // at least begin
    int64_t thread = -1;             // who did it, or stood still, as the system numbers threads
    std::optional<uint64_t> stream;  // handle of the stream that stood still instead
    int64_t copy = -1;               // number of the copy in its direction, from 1
    int first_layer = -1;            // layers in the order they land: the first and the last
    int last_layer = -1;
    int64_t pages = -1;
    int64_t bytes = -1;
    std::string_view way{};  // how a GPU moved it; static memory
    std::string text{};
};

// Now, in nanoseconds of std::chrono::steady_clock.
[[nodiscard]] int64_t steady_nanoseconds();
// What the system calls the calling thread.
[[nodiscard]] int64_t current_thread();

class Timeline {
  public:
    static constexpr int64_t kMostSpans = int64_t{1} << 24;

    // Whether spans are recorded. A hint: it may change at any moment.
    [[nodiscard]] bool on() const noexcept { return on_.load(std::memory_order_relaxed); }

    // Forgets what was recorded, and records from now on, the last `capacity` spans.
    // Throws: std::invalid_argument unless 1 <= capacity <= kMostSpans.
    void start(int64_t capacity);
    // Records no more; what was recorded stays. Idempotent.
    void stop();
    // Nothing happens unless on(). A span that ends before it begins is taken to last no time.
    void record(TimelineSpan span);

    // What is there, in the order it was recorded: spans come when they end.
    [[nodiscard]] std::vector<TimelineSpan> spans() const;
    // Spans that newer ones took the place of, since start().
    [[nodiscard]] int64_t dropped() const;

  private:
    const ProcessMark process_;
    std::atomic<bool> on_{false};
    mutable std::mutex mutex_;  // guards what follows
    std::vector<TimelineSpan> ring_;
    size_t capacity_ = 0;
    size_t oldest_ = 0;  // place of the oldest span, once the ring is full
    int64_t dropped_ = 0;
};

}  // namespace hicache
