"""The timeline: what happened when, recorded in a bounded ring, written as a file for Perfetto."""

from hicache_nsa.timeline.recording import DEFAULT_SPANS, TRACKS, Timeline
from hicache_nsa.timeline.trace_events import trace_events

__all__ = ["DEFAULT_SPANS", "TRACKS", "Timeline", "trace_events"]
