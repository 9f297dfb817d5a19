"""Every metric: name, type, labels with all their values, and help. What the collector exports,
what docs/metrics.md lists and what the dashboards draw is this table and nothing else.

Counters never fall while their cache lives. Sums that hold in every scrape:

- ``requested = tokens{device} + found_host + missed`` over all reasons
- ``pages`` of a tier over all states = its pages in all
- ``dropped`` over all reasons = ``stats().dropped_tokens``
- bytes over all buffers = tokens times the format's bytes of a token
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hicache_nsa.stats import DROP_REASONS, MISS_REASONS
from hicache_nsa.transfer import DIRECTIONS

PREFIX = "hicache_"
SOURCES = ("computed", "device", "host")
TIERS = ("device", "host")
PAGE_STATES = ("free", "cached", "locked", "in_flight", "owned")
RESULTS = ("ok", "failed")
WAYS = ("direct", "kernel", "staged")
BY_FORMAT = ("<one a buffer of the format>",)
BY_CACHE = ("<of the cache>",)


@dataclass(frozen=True)
class Metric:
    """name: without ``PREFIX``; a counter's exported name ends in ``_total``.

    unit: ``tokens``, ``pages``, ``bytes``, ``seconds``, or what is counted. labels: name of each
    label, and the values it takes.
    """

    name: str
    type: Literal["counter", "gauge", "histogram", "info"]
    unit: str
    help: str
    labels: tuple[tuple[str, tuple[str, ...]], ...] = ()


def _by(**labels: tuple[str, ...]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return tuple(labels.items())


METRICS: tuple[Metric, ...] = (
    # -- tokens of requests ---------------------------------------------------------------------
    Metric(
        "requested_tokens", "counter", "tokens",
        "Tokens of all prompts that match_prefix looked up with count=True.",
    ),
    Metric(
        "tokens", "counter", "tokens",
        "Tokens by where their KV came from: computed (taken in by insert, each page once), device "
        "(found there by a counted match), host (of matches whose load_back was accepted).",
        _by(source=SOURCES),
    ),
    Metric(
        "found_host_tokens", "counter", "tokens",
        "Tokens that counted matches found on host behind the device part, loaded or not.",
    ),
    Metric(
        "missed_tokens", "counter", "tokens",
        "Tokens that counted matches found in no tier: never cached as far as is known (cold), "
        "evicted from both tiers, lost by a flush, lost by a copy that failed, or behind the last "
        "whole page (partial).",
        _by(reason=MISS_REASONS),
    ),
    Metric(
        "duplicate_tokens", "counter", "tokens",
        "Tokens given to insert that were on the device, or on the way there, already.",
    ),
    # -- what the copies did --------------------------------------------------------------------
    Metric("loaded_tokens", "counter", "tokens", "Tokens that loads brought to the device."),
    Metric("saved_tokens", "counter", "tokens", "Tokens that saves brought to the host."),
    Metric(
        "loaded_bytes", "counter", "bytes", "Bytes of loaded_tokens.", _by(buffer=BY_FORMAT)
    ),
    Metric("saved_bytes", "counter", "bytes", "Bytes of saved_tokens.", _by(buffer=BY_FORMAT)),
    Metric(
        "copies", "counter", "copies", "Copies that ended, by direction and result.",
        _by(direction=DIRECTIONS, result=RESULTS),
    ),
    Metric(
        "copies_by_way", "counter", "copies",
        "Copies by the way that a GPU moved their bytes; on the CPU backend all stay 0.",
        _by(direction=DIRECTIONS, way=WAYS),
    ),
    Metric(
        "copy_seconds", "histogram", "seconds",
        "How long copies took, from the start of copying to the end; waiting to start excluded.",
        _by(direction=DIRECTIONS),
    ),
    Metric(
        "exposed_wait_seconds", "counter", "seconds",
        "How long computing really waited for layers of loads (wait_layer): 0 where a layer had "
        "landed before it was needed.",
    ),
    Metric(
        "exposed_waits", "counter", "waits",
        "Waits for a layer that had not landed when it was needed.",
    ),
    Metric(
        "copies_in_flight", "gauge", "copies", "Copies in flight now.",
        _by(direction=DIRECTIONS),
    ),
    Metric("joined_loads", "counter", "loads", "load_backs that shared a load in flight."),
    Metric("declined_loads", "counter", "loads", "load_backs that gave None for a host hit."),
    Metric("cancelled_loads", "counter", "loads", "Loads whose last user cancelled them."),
    # -- what was lost --------------------------------------------------------------------------
    Metric(
        "evicted_tokens", "counter", "tokens",
        "Tokens that left a tier to make room; those of the device may still be on host.",
        _by(tier=TIERS),
    ),
    Metric(
        "evicted_page_age_seconds", "histogram", "seconds",
        "How long ago evicted pages were used last, to a tenth of a second.",
        _by(tier=TIERS),
    ),
    Metric(
        "dropped_tokens", "counter", "tokens",
        "Tokens that are left in no tier: evicted from the last one, lost by a flush, or lost by "
        "a copy that failed.",
        _by(reason=DROP_REASONS),
    ),
    Metric(
        "refused_save_tokens", "counter", "tokens",
        "Tokens that were not saved since the host tier had no room for them, each time it was "
        "tried; 0 without a host tier.",
    ),
    Metric(
        "restored_host_tokens", "counter", "tokens",
        "Tokens found on host in a file that an earlier process left.",
    ),
    Metric(
        "damaged_host_pages", "counter", "pages",
        "Pages of that file that were not served, since they did not prove true.",
    ),
    Metric(
        "verified_pages", "counter", "pages", "Loaded pages that were compared with their digests."
    ),
    Metric(
        "corrupt_pages", "counter", "pages", "Of those, the ones that were not what was saved."
    ),
    # -- what there is now ----------------------------------------------------------------------
    Metric(
        "pages", "gauge", "pages",
        "Pages by state: free, cached (evictable), locked (cached and in use), in_flight (a load "
        "or save is filling them), owned (by callers).",
        _by(tier=TIERS, state=PAGE_STATES),
    ),
    Metric("pinned_pages", "gauge", "pages", "Locked pages that pins protect.", _by(tier=TIERS)),
    Metric(
        "largest_free_extent", "gauge", "pages", "Longest run of neighbouring free pages.",
        _by(tier=TIERS),
    ),
    Metric("tier_bytes", "gauge", "bytes", "Bytes of a tier's pool.", _by(tier=TIERS)),
    Metric(
        "ready_bytes", "gauge", "bytes", "Of those, ready for use (touched and registered).",
        _by(tier=TIERS),
    ),
    Metric("page_tokens", "gauge", "tokens", "Tokens a page."),
    Metric(
        "cache", "info", "", "What the cache is: the version, format, device and layout.",
        _by(version=BY_CACHE, format=BY_CACHE, device=BY_CACHE, layout=BY_CACHE),
    ),
)  # fmt: skip
