"""The options of a host tier inside an engine, named as those of ``HiCache``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from hicache_nsa.cache.options import share_of_pages
from hicache_nsa.engine_options import PLAIN_OPTIONS, check_engine_options
from hicache_nsa.formats.checks import one_of, positive_int
from hicache_nsa.page_index import POLICIES
from hicache_nsa.pools import LAYOUTS, MAX_PAGES, UNKEPT_OPTIONS, check_memory_options
from hicache_nsa.sizes import format_size, parse_size
from hicache_nsa.transfer import IO_BACKENDS, pinning

WRITE_POLICIES = ("write_through",)


@dataclass(frozen=True)
class OffloadingOptions:
    """Checked options. ``engine`` is what else a ``TransferEngine`` takes (workers, sizes ...),
    ``memory`` what else a ``HostPool`` takes (``HostMemoryOptions``).

    host_size: bytes of one worker's host pool, all layers and buffers; or host_pages, device pages.
    spare: share of the chunks that a store which has to evict leaves free beyond its own.
    """

    host_size: int | None = None
    host_pages: int | None = None
    layout: str = "page_first"
    io_backend: str = "auto"
    eviction_policy: str = "lru"
    write_policy: str = "write_through"
    spare: float = 0.0
    pin_memory: bool | str = "auto"
    memory: dict[str, Any] = field(default_factory=dict)
    engine: dict[str, Any] = field(default_factory=dict)

    def chunks(self, page_bytes: int, pages_per_chunk: int) -> int:
        """How many chunks the host tier has. Pure: every process comes to the same number.

        page_bytes: of one device page on one worker, over all layers and buffers.

        Raises:
            ValueError: not even one fits, or more than a pool can have.
        """
        if self.host_pages is not None:
            pages, asked = self.host_pages, f"host_pages={self.host_pages}"
        else:
            size = self.host_size or 0
            pages, asked = size // page_bytes, f"host_size={size} ({format_size(size)})"
        chunks = pages // pages_per_chunk
        if chunks == 0:
            raise ValueError(
                f"{asked} is {pages} pages of {page_bytes} bytes; a chunk takes {pages_per_chunk}; "
                f"give at least host_size={page_bytes * pages_per_chunk}"
            )
        if chunks * pages_per_chunk > MAX_PAGES:
            raise ValueError(f"{asked} is {pages} pages; the largest pool has {MAX_PAGES}")
        return chunks


_GROUPS = ("memory", "engine")
_OWN_NAMES = tuple(f.name for f in fields(OffloadingOptions) if f.name not in _GROUPS)
_NAMES = (*_OWN_NAMES, *UNKEPT_OPTIONS, *PLAIN_OPTIONS)


def read_options(given: Mapping[str, Any], engine_keys: Iterable[str]) -> OffloadingOptions:
    """The options among ``given``, checked. ``engine_keys`` are the engine's own and left alone.

    Raises:
        ValueError, TypeError: an unknown name (the message lists the known ones) or a bad value.
    """
    engine_keys = tuple(engine_keys)
    unknown = sorted(set(given) - set(_NAMES) - set(engine_keys))
    if unknown:
        raise ValueError(
            f"unknown option{'s' if len(unknown) > 1 else ''} {', '.join(unknown)}; known: "
            f"{', '.join(_NAMES)}; and the engine's own: {', '.join(engine_keys)}"
        )
    ours = {name: given[name] for name in _NAMES if name in given}
    engine = {name: ours.pop(name) for name in PLAIN_OPTIONS if name in ours}
    memory = {name: ours.pop(name) for name in UNKEPT_OPTIONS if name in ours}
    options = OffloadingOptions(**ours)
    if (options.host_size is None) == (options.host_pages is None):
        raise ValueError(
            f"give exactly one of host_size and host_pages, got host_size={options.host_size!r}, "
            f"host_pages={options.host_pages!r}"
        )
    one_of(options.layout, "layout", LAYOUTS)
    one_of(options.io_backend, "io_backend", IO_BACKENDS)
    one_of(options.eviction_policy, "eviction_policy", POLICIES)
    one_of(options.write_policy, "write_policy", WRITE_POLICIES)
    pinning(options.pin_memory)
    if options.host_size is not None:
        ours["host_size"] = parse_size(options.host_size, "host_size")
    else:
        ours["host_pages"] = positive_int(options.host_pages, "host_pages", MAX_PAGES)
    ours["spare"] = share_of_pages(options.spare, "spare")
    return OffloadingOptions(
        **ours,
        memory=check_memory_options(memory),
        engine=check_engine_options(engine, "the host tier"),
    )
