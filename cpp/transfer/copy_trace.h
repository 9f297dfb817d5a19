// What a timeline is told of one copy: before its start, its groups of layers as they land, the
// end.
//
// The slices of a copy's layers follow each other without a gap: each begins when the one before
// has landed. Not thread-safe: CopyJob calls it under its lock.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "core/timeline.h"
#include "transfer/direction.h"

namespace hicache {

struct CopyOrder;

class CopyTrace {
  public:
    // order: of the same job, which outlives this. timeline: nullptr: nobody is told anything.
    CopyTrace(std::shared_ptr<Timeline> timeline, const CopyOrder& order);

    // Whether it is worth while to find out the times below.
    [[nodiscard]] bool on() const { return timeline_ && timeline_->on(); }

    // Times are nanoseconds of std::chrono::steady_clock.
    void submitted(int64_t at) { submitted_ = at; }
    void started(int64_t at);
    // A device began with it only then. At most once.
    void began(int64_t at);
    // How a GPU moves it. way: static memory.
    void goes(std::string_view way) { way_ = way; }
    // The times to come are those at which a thread of ours saw what a device had done.
    void seen_by_host(bool seen) { seen_by_host_ = seen; }
    // The layers at positions [first, last) of the order. seen_by_host: that is not when they did
    // on the device, but when a thread of ours saw it.
    void landed(int first, int last, int64_t at, bool seen_by_host);
    void ended(int64_t at, int64_t pages, const std::optional<std::string>& error);
    // A thread, or a stream of the device, stood still for the layer at that position.
    void waited(int position, int64_t begin, int64_t end, std::optional<uint64_t> stream) const;

  private:
    [[nodiscard]] TimelineSpan span(Track track, SpanKind kind, int64_t begin, int64_t end) const;
    [[nodiscard]] Track track() const;
    void tell_queued();  // once

    const std::shared_ptr<Timeline> timeline_;
    const CopyOrder& order_;
    int64_t submitted_ = 0;  // 0: nobody looked
    int64_t started_ = 0;
    int64_t landed_ = 0;  // when the last group of layers landed; before that: the start
    std::string_view way_;
    bool seen_by_host_ = false;
};

}  // namespace hicache
