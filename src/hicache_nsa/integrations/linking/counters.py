"""Counters of a linker."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_nsa.page_index import IndexStats


@dataclass(frozen=True)
class LinkerStats:
    """What a linker has done so far, and what its host pages hold now.

    lookups, hit_pages: calls of ``lookup``, and the pages that they found. loaded_pages,
    stored_pages: copies that went well. failed_loads: batches. failed_offloads: copies that failed;
    refused_offloads: without room. leases: requests whose pages are kept now. resets,
    invalidations: flushes, and changes of weights.
    """

    lookups: int
    hit_pages: int
    loaded_pages: int
    failed_loads: int
    stored_pages: int
    failed_offloads: int
    refused_offloads: int
    leases: int
    resets: int
    invalidations: int
    suspended: bool
    host: IndexStats
