"""What ``HiCache.stats()`` returns, and the counters behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from hicache_nsa.histogram import Histogram
from hicache_nsa.transfer import CopyTotals

MISS_REASONS = ("cold", "evicted", "flushed", "failed", "partial")
DROP_REASONS = ("evicted", "flushed", "failed")


@dataclass(frozen=True)
class TierStats:
    """Pages of one tier by state: free, evictable, locked and owned add up to ``total_pages``.

    owned_pages: device pages held by callers, by loads in flight or by inserts behind them; host
    pages that a save in flight is filling.
    locked_pages: cached pages in use: locked, being saved or being loaded from.
    in_flight_pages: those of the owned ones that a load or a save in flight is filling.
    pinned_pages: those of the locked ones that pins protect.
    eviction_age: seconds since their last use, of all pages evicted from this tier.
    free_extents: runs of neighbouring pages that the free pages form. largest_free_extent: pages
    of the longest one. Many short ones: what is allocated next lies scattered.
    total_bytes: of the tier's pool. ready_bytes: of it, ready for use; while the host tier is still
    getting ready, ``total_pages`` are those that are.
    """

    total_pages: int
    free_pages: int
    evictable_pages: int
    locked_pages: int
    owned_pages: int
    pinned_pages: int = 0
    free_extents: int = 0
    largest_free_extent: int = 0
    total_bytes: int = 0
    ready_bytes: int = 0
    in_flight_pages: int = 0
    eviction_age: Histogram = field(default_factory=lambda: Histogram(()))


@dataclass
class Counters:
    """Totals since the cache was made. They never fall, not by a flush or a clear.

    requested_tokens: of all prompts that match_prefix(count=True) looked up. They are those
        found (matched_device_tokens and found_host_tokens) and those missed.
    matched_device_tokens: found on the device. found_host_tokens: found on host behind the device
        part, being loaded or not, loaded later or not.
    matched_host_tokens: host tokens of matches whose load_back was accepted.
    missed_cold_tokens: in no tier, and never were as far as is known.
    missed_evicted_tokens, missed_flushed_tokens, missed_failed_tokens: in no tier any more: evicted
        from the last one, lost by a flush, lost by a copy that failed (its save; the load before).
    missed_partial_tokens: behind the last whole page of the prompt.
    load_back_tokens, load_back_bytes: landed on the device. saved_tokens, saved_bytes: on host.
    inserted_tokens: taken in by insert. duplicate_tokens: given to insert, there already.
    dropped_tokens: left in no tier any more. dropped_evicted_tokens, dropped_flushed_tokens,
        dropped_failed_tokens: the same by what took them; their sum is ``dropped_tokens``.
    restored_host_tokens: found on host in a file that an earlier process left.
    damaged_host_pages: pages of that file that were not served, since they did not prove true.
    failed_loads, failed_saves: copies that failed. cancelled_loads: copies whose last user
        cancelled them; their pages were given back, what they brought was not kept.
    refused_save_tokens: not saved, the host tier had no room for them; each time it was tried.
    joined_loads: load backs that shared a load in flight. declined_loads: load_back gave None.
    """

    requested_tokens: int = 0
    matched_device_tokens: int = 0
    found_host_tokens: int = 0
    matched_host_tokens: int = 0
    load_back_tokens: int = 0
    load_back_bytes: int = 0
    saved_tokens: int = 0
    saved_bytes: int = 0
    inserted_tokens: int = 0
    duplicate_tokens: int = 0
    evicted_device_tokens: int = 0
    evicted_host_tokens: int = 0
    missed_cold_tokens: int = 0
    missed_evicted_tokens: int = 0
    missed_flushed_tokens: int = 0
    missed_failed_tokens: int = 0
    missed_partial_tokens: int = 0
    dropped_tokens: int = 0
    dropped_evicted_tokens: int = 0
    dropped_flushed_tokens: int = 0
    dropped_failed_tokens: int = 0
    failed_loads: int = 0
    failed_saves: int = 0
    cancelled_loads: int = 0
    refused_save_tokens: int = 0
    joined_loads: int = 0
    declined_loads: int = 0
    restored_host_tokens: int = 0
    damaged_host_pages: int = 0

    def drop_evicted(self, tokens: int) -> None:
        """``tokens`` are left in no tier, eviction took them."""
        self.dropped_tokens += tokens
        self.dropped_evicted_tokens += tokens

    def drop_flushed(self, tokens: int) -> None:
        """The same of a flush."""
        self.dropped_tokens += tokens
        self.dropped_flushed_tokens += tokens

    def drop_failed(self, tokens: int) -> None:
        """The same of a copy that failed."""
        self.dropped_tokens += tokens
        self.dropped_failed_tokens += tokens


@dataclass(frozen=True)
class CopyStats:
    """Copies of one direction that have ended by now, whether the cache has taken them in or not.

    copies: ended well. failed: ended with an error, or could not be started.
    direct, kernel, staged: went that way of a GPU, those included that are under way.
    seconds: how long each copy that ended took, from the start of copying to the end; 0 for one
        that never started.
    """

    copies: int = 0
    failed: int = 0
    direct: int = 0
    kernel: int = 0
    staged: int = 0
    seconds: Histogram = field(default_factory=lambda: Histogram(()))


@dataclass
class CacheStats(Counters):
    """A snapshot: both tiers, the copies in flight, and every counter of ``Counters``.

    loads_in_flight, saves_in_flight: copies that are not taken in yet. h2d, d2h: all loads, all
    saves.

    verified_pages: pages of loads of which at least one digest was compared. corrupt_pages: those
    of them that were not what was saved; their loads failed (``verify``).
    load_back_runs, saved_runs: runs that the pages of all loads and saves were merged into, each
    neighbours in both tiers. load_back_pages_per_run, saved_pages_per_run: pages copied, by these;
    0 where there was no copy, and behind the truth while one is in flight.
    exposed_waits: waits for a layer of a load that had not landed when it was needed.
    exposed_wait_seconds: how long they took in all; 0 without ``time_waits``.
    """

    device: TierStats = TierStats(0, 0, 0, 0, 0)
    host: TierStats = TierStats(0, 0, 0, 0, 0)
    loads_in_flight: int = 0
    saves_in_flight: int = 0
    h2d: CopyStats = field(default_factory=CopyStats)
    d2h: CopyStats = field(default_factory=CopyStats)
    verified_pages: int = 0
    corrupt_pages: int = 0
    load_back_runs: int = 0
    saved_runs: int = 0
    load_back_pages_per_run: float = 0.0
    saved_pages_per_run: float = 0.0
    exposed_waits: int = 0
    exposed_wait_seconds: float = 0.0


def snapshot(
    counters: Counters,
    device: TierStats,
    host: TierStats,
    loads: int,
    saves: int,
    totals: Mapping[str, CopyTotals],
    unstarted_saves: int,
) -> CacheStats:
    """The counters as they are now, with the tiers. totals: ``TransferEngine.totals()``, to which
    the saves come that it was never given.
    """
    loaded, saved = totals["h2d"], totals["d2h"]
    values = {f.name: getattr(counters, f.name) for f in fields(Counters)}
    return CacheStats(
        **values,
        device=device,
        host=host,
        loads_in_flight=loads,
        saves_in_flight=saves,
        h2d=_copy_stats(loaded),
        d2h=_copy_stats(saved, unstarted_saves),
        verified_pages=loaded.counts["verified"],
        corrupt_pages=loaded.counts["corrupt"],
        load_back_runs=loaded.counts["runs"],
        saved_runs=saved.counts["runs"],
        load_back_pages_per_run=_pages_per_run(loaded.counts),
        saved_pages_per_run=_pages_per_run(saved.counts),
        exposed_waits=loaded.counts["exposed_waits"],
        exposed_wait_seconds=loaded.counts["exposed_wait_ns"] * 1e-9,
    )


def _copy_stats(totals: CopyTotals, unstarted: int = 0) -> CopyStats:
    names = ("copies", "failed", "direct", "kernel", "staged")
    counts = {name: totals.counts[name] for name in names}
    seconds = totals.seconds
    if unstarted:
        counts["failed"] += unstarted
        seconds = seconds.copy()
        seconds.add(0.0, unstarted)
    return CopyStats(**counts, seconds=seconds)


def _pages_per_run(moved: Mapping[str, int]) -> float:
    return moved["pages"] / moved["runs"] if moved["runs"] else 0.0
