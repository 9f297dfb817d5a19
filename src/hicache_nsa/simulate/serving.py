"""One replay: the requests of a trace, one after the other, through a ``HiCache`` without bytes.

The tree is the cache's own, with one number for the tokens of a page: two pages are equal where
their numbers are. A request is served as an engine does it: match, lock, load back, allocate,
insert, unlock; nothing of it overlaps with the next one. It matches whole pages, its own last one
included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from hicache_nsa.cache import HiCache
from hicache_nsa.formats import BufferFormat, PoolFormat
from hicache_nsa.simulate.cache import SimulatedCache
from hicache_nsa.simulate.case import Case
from hicache_nsa.tokens import PageIds, concat_pages
from hicache_nsa.traces import Trace

REASONS = ("cold", "evicted", "flushed")  # no copy fails here, and there are whole pages only
LOAD_TRIES = 3  # write back: the first may have to wait for saves, which end at once here


@dataclass
class Served:
    """Whole pages that the requests found, one number each, complete at any moment.

    missed_pages: those that no tier had, by reason (``cache/losses``), once all are served.
    """

    device_pages: list[int] = field(default_factory=list)
    host_pages: list[int] = field(default_factory=list)
    missed_pages: dict[str, int] | None = None

    @property
    def requests(self) -> int:
        """Requests that are over."""
        return len(self.host_pages)


@dataclass(frozen=True)
class Tiers:
    """Pages of both tiers. lent: device pages that a running request has beyond the tier.
    distinct: pages of the whole trace, each once.

    A device tier that is smaller than the longest prompt could not serve it. Then a request is lent
    what is missing, and at its end all beyond the tier is evicted. With no tier at all everything
    is: hits come from host alone.
    """

    device: int
    host: int
    lent: int
    distinct: int


def tiers_of(case: Case, page_bytes: int, trace: Trace, distinct_pages: int) -> Tiers:
    """The tiers of ``case``, none larger than all ``distinct_pages`` of the trace need."""
    device = min(case.device_bytes // page_bytes, distinct_pages)
    host = min(case.host_bytes // page_bytes, distinct_pages)
    return Tiers(device, host, max(trace.largest_pages - device, 0), distinct_pages)


def serve(
    trace: Trace,
    case: Case,
    tiers: Tiers,
    page_bytes: int,
    *,
    write_threshold: int = 2,
    flush_at: Iterable[int] = (),
    served: Served | None = None,
    step: Callable[[int], None] = lambda requests: None,
    make: Callable[..., HiCache] = SimulatedCache,
) -> Served:
    """Serve all requests; ``step(n)`` is called when n are over.

    flush_at: the device is flushed when so many requests are over. served: filled meanwhile, for
    whoever wants to know how far it is. make: the cache, called with the options of ``HiCache``.
    """
    served = Served() if served is None else served
    flushes = frozenset(flush_at)
    format = PoolFormat("simulated", 1, 1, (BufferFormat("page", page_bytes, (0,)),))
    with make(
        format,
        device_pages=tiers.device + tiers.lent,
        host_pages=tiers.host,
        eviction_policy=case.policy,
        write_policy=case.write_policy,
        write_threshold=write_threshold,
    ) as cache:
        if isinstance(cache, SimulatedCache):
            cache.remember(tiers.distinct)
        if 0 in flushes:
            cache.reset()
        for request in trace.requests:
            device, host = _serve_one(cache, request.pages)
            if tiers.lent:
                _give_back(cache, tiers.device)
            served.device_pages.append(device)
            served.host_pages.append(host)
            if served.requests in flushes:
                cache.reset()
            step(served.requests)
        cache.check()
        stats = cache.stats()
    served.missed_pages = {name: getattr(stats, f"missed_{name}_tokens") for name in REASONS}
    return served


def _serve_one(cache: HiCache, pages: PageIds) -> tuple[int, int]:
    """Pages of a request that were on the device, and that came back from host."""
    match = cache.match_prefix(pages)
    handle = cache.lock(match)
    load = None
    for _ in range(LOAD_TRIES if match.host_tokens else 0):
        load = cache.load_back(match)
        if load is not None:
            break
    cached = match.device_pages
    if load is not None:
        cached = concat_pages([cached, load.pages])
    new = cache.allocate(len(pages) - len(cached))
    result = cache.insert(pages, concat_pages([cached, new]), lock=handle)
    if load is not None:
        load.release()
    assert result.handle is not None
    cache.unlock(result.handle)
    return len(match.device_pages), len(cached) - len(match.device_pages)


def _give_back(cache: HiCache, device_pages: int) -> None:
    """Evict what the device tier has no room for."""
    device = cache.stats().device
    cached = device.total_pages - device.free_pages
    if cached > device_pages:
        cache.evict_device(cached - device_pages)
        cache.poll()
