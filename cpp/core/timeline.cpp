#include "core/timeline.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "core/errors.h"

namespace hicache {
namespace {

constexpr std::array<std::string_view, kTracks> kTrackNames{"scheduler", "compute", "waits", "h2d",
                                                            "d2h"};
constexpr std::array<std::string_view, 5> kKindNames{"call", "queued", "copy", "layers", "wait"};

}  // namespace

std::string_view name(Track track) {
    return kTrackNames[static_cast<size_t>(track)];
}

Track parse_track(std::string_view name) {
    const auto* const found = std::ranges::find(kTrackNames, name);
    if (found == kTrackNames.end()) {
        bad_argument("Track '", name, "' is unknown; use scheduler, compute, waits, h2d or d2h.");
    }
    return static_cast<Track>(found - kTrackNames.begin());
}

std::string_view name(SpanKind kind) {
    return kKindNames[static_cast<size_t>(kind)];
}

int64_t steady_nanoseconds() {
    const auto since = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(since).count();
}

int64_t current_thread() {
    thread_local uint64_t generation = 0;  // in a forked child the thread has another number
    thread_local int64_t id = 0;
    if (generation != process_generation()) {
        id = static_cast<int64_t>(::syscall(SYS_gettid));
        generation = process_generation();
    }
    return id;
}

void Timeline::start(int64_t capacity) {
    process_.require_same("timeline");
    if (capacity < 1 || capacity > kMostSpans) {
        bad_argument("The timeline's capacity is ", capacity, " spans; it must be 1 to ",
                     kMostSpans, ".");
    }
    std::vector<TimelineSpan> ring;
    ring.reserve(static_cast<size_t>(capacity));
    std::lock_guard lock(mutex_);
    ring_.swap(ring);
    capacity_ = static_cast<size_t>(capacity);
    oldest_ = 0;
    dropped_ = 0;
    on_.store(true, std::memory_order_relaxed);
}

void Timeline::stop() {
    on_.store(false, std::memory_order_relaxed);
}

void Timeline::record(TimelineSpan span) {
    if (!on() || process_.forked()) return;
    span.end = std::max(span.end, span.begin);
    std::lock_guard lock(mutex_);
    if (ring_.size() < capacity_) {
        ring_.push_back(std::move(span));
        return;
    }
    ring_[oldest_] = std::move(span);
    oldest_ = (oldest_ + 1) % capacity_;
    ++dropped_;
}

std::vector<TimelineSpan> Timeline::spans() const {
    process_.require_same("timeline");
    std::lock_guard lock(mutex_);
    std::vector<TimelineSpan> found;
    found.reserve(ring_.size());
    const auto oldest = ring_.begin() + static_cast<std::ptrdiff_t>(oldest_);
    found.insert(found.end(), oldest, ring_.end());
    found.insert(found.end(), ring_.begin(), oldest);
    return found;
}

int64_t Timeline::dropped() const {
    process_.require_same("timeline");
    std::lock_guard lock(mutex_);
    return dropped_;
}

}  // namespace hicache
