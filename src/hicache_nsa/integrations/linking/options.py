"""The options in ``linker_extra_config``, named as in ``HiCache``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hicache_nsa.engine_options import PLAIN_OPTIONS, check_engine_options
from hicache_nsa.formats.checks import count_of, one_of
from hicache_nsa.page_index import POLICIES
from hicache_nsa.pools import LAYOUTS, UNKEPT_OPTIONS, check_memory_options
from hicache_nsa.sizes import parse_size
from hicache_nsa.transfer import IO_BACKENDS, pinning

KEEP = ("auto", True, False)
MOST_LEASE_SECONDS = 3600.0
NAMES = (
    "host_size",
    "host_pages",
    "layout",
    "io_backend",
    "write_policy",
    "eviction_policy",
    "load_back_threshold",
    "pin_memory",
    "keep_on_flush",
    "lease_seconds",
    *UNKEPT_OPTIONS,
    *PLAIN_OPTIONS,
)
# Options of HiCache that have no meaning here, and why.
NOT_HERE = {
    "device": "it is where SGLang's KV pool lies",
    "device_pages": "SGLang allocates its KV pool",
    "device_buffers": "SGLang allocates its KV pool",
    "device_reserved": "SGLang hands out the device pages",
    "stream": "SGLang has its own streams",
    "acks": "SGLang takes in finished copies at each step of its scheduler",
    "write_threshold": "SGLang decides when a prefix is offloaded",
    "host_file": "SGLang knows what the pages hold, and the file could not say it",
    "weights": "there is no host_file here",
    "spare": "an index of hashes evicts page by page",
}


@dataclass(frozen=True)
class LinkerOptions:
    """Checked options of a ``HiCacheLinker``.

    host_size, host_pages: exactly one, of this rank; bytes, "50GB" or "50GiB" for all buffers and
        layers, or pages. layout, io_backend, pin_memory: as in ``HiCache``.
    eviction_policy: of ``PageIndex``. load_back_threshold: tokens; shorter host hits are computed.
    keep_on_flush: whether ``reset()`` keeps host pages; ``auto``: while the hooks are installed.
    lease_seconds: how long a ``lookup`` keeps its pages from eviction at most.
    memory: those of ``HostMemoryOptions``. engine: further options of ``TransferEngine``.
    """

    host_size: int | None
    host_pages: int | None
    layout: str = "page_first"
    io_backend: str = "auto"
    eviction_policy: str = "lru"
    load_back_threshold: int = 0
    pin_memory: bool | str = "auto"
    keep_on_flush: bool | str = "auto"
    lease_seconds: float = 10.0
    memory: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)


def linker_options(extra_config: Mapping[str, Any] | None) -> LinkerOptions:
    """Check ``linker_extra_config``.

    Raises:
        ValueError, TypeError: an unknown option or value; the message lists what there is.
    """
    given = dict(extra_config or {})
    for name in given:
        _known(name)
    one_of(given.pop("write_policy", "write_through"), "write_policy", ("write_through",))
    size, pages = given.pop("host_size", None), given.pop("host_pages", None)
    if (size is None) == (pages is None):
        raise ValueError(
            "linker_extra_config needs exactly one of host_size and host_pages, of each rank: "
            f'{{"host_size": "50GB"}}; got host_size={size!r}, host_pages={pages!r}'
        )
    engine = {name: given.pop(name) for name in PLAIN_OPTIONS if name in given}
    memory = {name: given.pop(name) for name in UNKEPT_OPTIONS if name in given}
    return LinkerOptions(
        host_size=None if size is None else parse_size(size, "host_size"),
        host_pages=None if pages is None else count_of(pages, "host_pages", least=1),
        layout=one_of(given.pop("layout", "page_first"), "layout", LAYOUTS),
        io_backend=one_of(given.pop("io_backend", "auto"), "io_backend", IO_BACKENDS),
        eviction_policy=one_of(given.pop("eviction_policy", "lru"), "eviction_policy", POLICIES),
        load_back_threshold=count_of(given.pop("load_back_threshold", 0), "load_back_threshold"),
        pin_memory=_pin_memory(given.pop("pin_memory", "auto")),
        keep_on_flush=_keep_on_flush(given.pop("keep_on_flush", "auto")),
        lease_seconds=_seconds(given.pop("lease_seconds", 10.0)),
        memory=check_memory_options(memory),
        engine=check_engine_options(engine, "linker_extra_config"),
    )


def _known(name: str) -> None:
    if name in NOT_HERE:
        raise ValueError(
            f"linker_extra_config: {name!r} is no option of HiCacheLinker: {NOT_HERE[name]}; "
            f"its options are {', '.join(NAMES)}"
        )
    if name not in NAMES:
        raise ValueError(
            f"linker_extra_config: {name!r} is unknown; the options are {', '.join(NAMES)}"
        )


def _pin_memory(value: Any) -> bool | str:
    pinning(value)
    return value if isinstance(value, bool) else "auto"


def _keep_on_flush(value: Any) -> bool | str:
    if isinstance(value, bool) or value == "auto":
        return value  # type: ignore[no-any-return]
    raise ValueError(f"keep_on_flush={value!r} is unknown; known: 'auto', true, false")


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"lease_seconds must be a number, got {type(value).__name__}")
    if not 0 < value <= MOST_LEASE_SECONDS:
        raise ValueError(f"lease_seconds={value} must be above 0 and at most {MOST_LEASE_SECONDS}")
    return float(value)
