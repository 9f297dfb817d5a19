"""Pages and tokens of a tier."""

from __future__ import annotations

from dataclasses import dataclass

from hicache_nsa.formats import PoolFormat
from hicache_nsa.pools import MAX_PAGES


@dataclass(frozen=True)
class TierSize:
    """What fits into ``nbytes``: whole pages. unused_bytes: less than a page."""

    tier: str
    nbytes: int
    pages: int
    tokens: int
    unused_bytes: int


def tier_size(format: PoolFormat, tier: str, nbytes: int) -> TierSize:
    """The pages of ``format`` that fit into ``nbytes``.

    Raises:
        ValueError: not one page fits, or more than a pool can have.
    """
    pages, unused = divmod(nbytes, format.page_bytes)
    if pages == 0:
        raise ValueError(
            f"{nbytes} bytes are below one page: {format.page_size} tokens of {format.name} take "
            f"{format.page_bytes} bytes"
        )
    if pages > MAX_PAGES:
        raise ValueError(f"{nbytes} bytes are {pages} pages; a pool has at most {MAX_PAGES}")
    return TierSize(tier, nbytes, pages, pages * format.page_size, unused)
