"""The options of ``HiCache``, checked before anything is made."""

from __future__ import annotations

from typing import Any

from hicache_nsa.cache.write_policy import WRITE_POLICIES
from hicache_nsa.engine_options import check_engine_options
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import MAX_DIM, count_of, one_of, positive_int
from hicache_nsa.transfer import IO_BACKENDS
from hicache_nsa.tree.eviction import eviction_policy_of

ACKS = ("auto", "poll")
MOST_SHARE = 0.5


def check_options(
    format: Any,
    io_backend: Any,
    write_policy: Any,
    write_threshold: Any,
    eviction_policy: Any,
    pin_memory: Any,
    acks: Any,
    engine_options: dict[str, Any],
) -> None:
    """``ValueError`` or ``TypeError`` that names the option and what it can be."""
    if not isinstance(format, PoolFormat):
        raise TypeError(
            f"format must be a PoolFormat (see formats.dsa), got {type(format).__name__}"
        )
    one_of(io_backend, "io_backend", IO_BACKENDS)
    one_of(write_policy, "write_policy", WRITE_POLICIES)
    eviction_policy_of(eviction_policy)
    positive_int(write_threshold, "write_threshold")
    one_of(acks, "acks", ACKS)
    if not isinstance(pin_memory, bool) and pin_memory != "auto":
        raise ValueError(f"pin_memory={pin_memory!r} is unknown; known: 'auto', True, False")
    check_engine_options(engine_options, "HiCache")


def threshold_tokens(load_back_threshold: int | None, format: PoolFormat) -> int:
    """Tokens below which a host hit is not loaded; default one page, 0 loads everything."""
    if load_back_threshold is None:
        return format.page_size
    return count_of(load_back_threshold, "load_back_threshold", most=MAX_DIM)


def share_of_pages(share: Any, name: str) -> float:
    """``share`` as a float in 0..MOST_SHARE."""
    if isinstance(share, bool) or not isinstance(share, (int, float)):
        raise TypeError(f"{name} must be a share such as 0.02, got {type(share).__name__}")
    if not 0 <= share <= MOST_SHARE:
        raise ValueError(f"{name}={share} must be between 0 and {MOST_SHARE}, a share of the pages")
    return float(share)


def low_water_share(low_water: Any, write_policy: str) -> float:
    """``low_water`` as a float in 0..MOST_SHARE; above 0 only with ``write_back``."""
    share = share_of_pages(low_water, "low_water")
    if share > 0 and write_policy != "write_back":
        raise ValueError(
            f"low_water={low_water} demotes ahead of need, which only write_policy='write_back' "
            f"does, not {write_policy!r}; leave it at 0"
        )
    return share
