"""The options of ``HiCache``, checked before anything is made."""

from __future__ import annotations

from typing import Any

from hicache_nsa.engine_options import check_engine_options
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import one_of, positive_int
from hicache_nsa.transfer import IO_BACKENDS
from hicache_nsa.tree.eviction import eviction_policy_of

WRITE_POLICIES = ("write_through",)
LATER_WRITE_POLICIES = ("write_through_selective", "write_back")
ACKS = ("auto", "poll")
MOST_SPARE = 0.5


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
    _available(write_policy, "write_policy", WRITE_POLICIES, LATER_WRITE_POLICIES)
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
    if load_back_threshold == 0 and load_back_threshold is not False:
        return 0
    return positive_int(load_back_threshold, "load_back_threshold")


def spare_share(spare: Any) -> float:
    """``spare`` as a float in 0..MOST_SPARE."""
    if isinstance(spare, bool) or not isinstance(spare, (int, float)):
        raise TypeError(f"spare must be a share such as 0.02, got {type(spare).__name__}")
    if not 0 <= spare <= MOST_SPARE:
        raise ValueError(f"spare={spare} must be between 0 and {MOST_SPARE}, a share of the pages")
    return float(spare)


def _available(value: Any, name: str, now: tuple[str, ...], later: tuple[str, ...]) -> None:
    one_of(value, name, (*now, *later))
    if value in later:
        raise ValueError(
            f"{name}={value!r} is not in this version of hicache-nsa yet; it has {', '.join(now)}"
        )
