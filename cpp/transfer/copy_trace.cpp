#include "transfer/copy_trace.h"

#include <algorithm>
#include <utility>

#include "transfer/copy_job.h"

namespace hicache {

CopyTrace::CopyTrace(std::shared_ptr<Timeline> timeline, const CopyOrder& order)
    : timeline_(std::move(timeline)), order_(order) {}

Track CopyTrace::track() const {
    return order_.direction == Direction::kHostToDevice ? Track::kHostToDevice
                                                        : Track::kDeviceToHost;
}

TimelineSpan CopyTrace::span(Track track, SpanKind kind, int64_t begin, int64_t end) const {
    TimelineSpan made;
    made.track = track;
    made.kind = kind;
    made.begin = begin;
    made.end = end;
    made.copy = order_.sequence;
    return made;
}

void CopyTrace::started(int64_t at) {
    started_ = at;
    landed_ = at;
    if (!seen_by_host_) tell_queued();  // else a device may begin later
}

void CopyTrace::began(int64_t at) {
    started_ = landed_ = std::max(at, started_);
    tell_queued();
}

void CopyTrace::tell_queued() {
    if (!on() || submitted_ == 0) return;
    TimelineSpan made = span(track(), SpanKind::kQueued, submitted_, started_);
    made.pages = order_.pages;
    timeline_->record(std::move(made));
    submitted_ = 0;
}

void CopyTrace::landed(int first, int last, int64_t at, bool seen_by_host) {
    const int64_t since = std::min(landed_, at);
    landed_ = std::max(landed_, at);
    if (!on()) return;
    TimelineSpan made = span(track(), SpanKind::kLayers, since, at);
    made.first_layer = order_.layers[static_cast<size_t>(first)];
    made.last_layer = order_.layers[static_cast<size_t>(last) - 1];
    made.seen_by_host = seen_by_host;
    timeline_->record(std::move(made));
}

void CopyTrace::ended(int64_t at, int64_t pages, const std::optional<std::string>& error) {
    if (!on() || order_.sequence == 0) return;
    if (started_ > 0) tell_queued();  // no device said when it began
    TimelineSpan made =
        span(track(), SpanKind::kCopy, started_ > 0 ? started_ : at, std::max(at, landed_));
    made.pages = pages;
    made.bytes = pages * order_.page_bytes;
    made.way = way_;
    made.seen_by_host = seen_by_host_;
    if (error) made.text = *error;
    timeline_->record(std::move(made));
}

void CopyTrace::waited(int position, int64_t begin, int64_t end,
                       std::optional<uint64_t> stream) const {
    if (!on()) return;
    TimelineSpan made = span(Track::kWaits, SpanKind::kWait, begin, end);
    made.first_layer = made.last_layer = order_.layers[static_cast<size_t>(position)];
    if (stream) {
        made.stream = stream;
    } else {
        made.thread = current_thread();
    }
    timeline_->record(std::move(made));
}

}  // namespace hicache
