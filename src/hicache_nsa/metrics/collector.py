"""``Collector``: the table's metrics of one or several caches, for ``prometheus_client``."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import hicache_nsa
from hicache_nsa.cache import HiCache
from hicache_nsa.errors import HiCacheError
from hicache_nsa.extras import install_extra
from hicache_nsa.metrics.labels import checked_labels, require_distinct, require_utf8
from hicache_nsa.metrics.samples import CacheFacts, samples
from hicache_nsa.metrics.table import METRICS, PREFIX, Metric
from hicache_nsa.stats import CacheStats

if TYPE_CHECKING:
    from prometheus_client.core import Metric as Family

Labels: TypeAlias = Mapping[str, str | int]


class Collector:
    """Give it to a registry of ``prometheus_client``: ``REGISTRY.register(Collector(cache))``.

    A scrape takes one snapshot of each cache, and walks nothing. It has every row of ``METRICS``,
    in their order, with every value of its labels. The collector keeps no cache alive; the series
    of one that is closed or gone disappear.

    A registry takes one collector only, since a name stands in it once: several caches (ranks,
    models) are added to the same one, with labels that tell them apart.
    labels: constant labels of the cache's series.

    Raises:
        ImportError: ``prometheus_client`` is not installed; names the extra.
        TypeError, ValueError: see ``add``.
    """

    def __init__(self, cache: HiCache | None = None, *, labels: Labels | None = None) -> None:
        self._client = _client()
        self._lock = threading.Lock()
        self._watched: list[_Watched] = []
        if cache is not None:
            self.add(cache, labels=labels)
        elif labels is not None:
            raise ValueError("labels belong to a cache: give them to add(), together with it")

    def add(self, cache: HiCache, *, labels: Labels | None = None) -> None:
        """Export ``cache``, too. labels: text or int; the same names for all caches, other values.

        Raises:
            TypeError: not a ``HiCache``: others have no counters of tokens and tiers.
            ValueError: a closed cache, one that is here already, labels that don't fit, or a format
                whose name can't be written in UTF-8.
        """
        if not isinstance(cache, HiCache):
            raise TypeError(f"a collector exports a HiCache, got {type(cache).__name__}")
        mine = checked_labels(labels)
        if cache.closed:
            raise ValueError("the cache is closed: there is nothing to export any more")
        facts = facts_of(cache)
        for name, value in facts.info.items():
            require_utf8(name, value)
        with self._lock:
            self._drop_closed()
            if any(each.cache() is cache for each in self._watched):
                raise ValueError("the collector exports this cache already: remove() it first")
            require_distinct(mine, (each.labels for each in self._watched))
            self._watched.append(_Watched(weakref.ref(cache), mine, facts))

    def remove(self, cache: HiCache) -> None:
        """Export ``cache`` no more. One that isn't exported is no error."""
        with self._lock:
            self._watched = [each for each in self._watched if each.cache() is not cache]

    def describe(self) -> Iterator[Family]:
        """Every family without samples: a registry learns the names and asks no cache."""
        for metric in METRICS:
            yield self._family(metric)

    def collect(self) -> Iterator[Family]:
        """One family for each row of the table, with the samples of all caches as they are now."""
        with self._lock:
            self._drop_closed()
            watched = list(self._watched)
        seen = [(each, stats) for each in watched if (stats := each.stats()) is not None]
        for metric in METRICS:
            family = self._family(metric)
            for each, stats in seen:
                for sample in samples(metric, each.facts, stats):
                    labels = {**each.labels, **sample.labels}
                    family.add_sample(family.name + sample.suffix, labels, sample.value)
            yield family

    def _family(self, metric: Metric) -> Family:
        family: Family = self._client.Metric(PREFIX + metric.name, metric.help, metric.type)
        return family

    def _drop_closed(self) -> None:
        self._watched = [each for each in self._watched if not each.over()]


@dataclass(frozen=True)
class _Watched:
    """A cache that is exported."""

    cache: weakref.ref[HiCache]
    labels: dict[str, str]
    facts: CacheFacts

    def over(self) -> bool:
        cache = self.cache()
        return cache is None or cache.closed

    def stats(self) -> CacheStats | None:
        """None: it has been closed meanwhile."""
        cache = self.cache()
        try:
            return None if cache is None else cache.observe()
        except HiCacheError:
            if cache is not None and cache.closed:
                return None
            raise


def facts_of(cache: HiCache) -> CacheFacts:
    """What the samples need to know of a cache beside its statistics."""
    format = cache.format
    return CacheFacts(
        page_tokens=format.page_size,
        buffer_bytes={b.name: b.page_bytes * len(b.layers) for b in format.buffers},
        info={
            "version": hicache_nsa.__version__,
            "format": format.name,
            "device": cache.device_pool.device,
            "layout": cache.host_pool.layout,
        },
    )


def _client() -> ModuleType:
    try:
        from prometheus_client import core
    except ImportError as error:
        raise ImportError(
            "hicache_nsa.metrics.Collector needs prometheus_client, which isn't installed: "
            f"{install_extra('metrics')}"
        ) from error
    client: ModuleType = core
    return client
