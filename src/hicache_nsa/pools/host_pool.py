"""``HostPool``: host pages, in one mapping."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError, native_check
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import one_of
from hicache_nsa.memory_budget import Claim
from hicache_nsa.pools.host_room import claim_host_room
from hicache_nsa.pools.memory_options import HostMemoryOptions
from hicache_nsa.pools.pool import MAX_PAGES, Pool, native_format, page_count
from hicache_nsa.sizes import format_size, parse_size

LAYOUTS = ("layer_first", "page_first", "page_first_direct")


class HostPool(Pool):
    """Host pages in one mapping that this object owns and prefaults.

    Exactly one of pages and size: ``size`` (bytes or "50GiB") counts everything, every layer and
    buffer, and is never rounded up. The memory budget is asked before anything is mapped. A view
    taken from ``memory`` keeps the mapping alive.
    layout: ``layer_first``, ``page_first`` or ``page_first_direct``.
    memory_options: those of ``HostMemoryOptions``.
    digests: of what was saved into the pages; kept by transfer engines that ``verify``.
    """

    def __init__(
        self,
        format: PoolFormat,
        pages: int | None = None,
        size: int | str | None = None,
        layout: str = "page_first",
        **memory_options: Any,
    ) -> None:
        if not isinstance(format, PoolFormat):
            raise TypeError(f"format must be a PoolFormat, got {type(format).__name__}")
        self.format = format
        self.layout = one_of(layout, "layout", LAYOUTS)
        super().__init__("host", _host_pages(format, pages, size))
        self.native_layout = _core.HostLayout(native_format(format), layout, self.num_pages)
        self._options = HostMemoryOptions(**memory_options)
        self.digests = _core.PageDigests(self.num_pages, format.num_layers)
        self._memory: _core.HostMemory | None = None
        self._claim: Claim | None = None
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of the whole pool: pages times ``format.page_bytes``."""
        return int(self.native_layout.total_bytes)

    @property
    def memory(self) -> _core.HostMemory:
        """The mapping, made at the first use.

        Raises:
            HiCacheError: more than the memory budget allows (docs/memory.md), before anything is
                mapped; or the system refuses it all the same.
        """
        if self._closed:
            raise HiCacheError("the host pool is closed")
        if self._memory is None:
            claim = claim_host_room(self.num_pages, self.format.page_bytes, self._options)
            try:
                self._memory = _core.HostMemory(
                    self.nbytes, prefault=self._options.prefault, most=claim.nbytes
                )
            except MemoryError as error:
                claim.close()
                raise HiCacheError(
                    f"no memory for a host pool of {self.num_pages} pages "
                    f"({format_size(self.nbytes)}): {error}; ask for fewer"
                ) from error
            claim.settle()
            self._claim = claim
        return self._memory

    def view(self) -> npt.NDArray[np.uint8]:
        """All bytes of the pool, uint8 [nbytes]; keeps the mapping alive."""
        return self.memory.view()

    def offset(self, buffer: str, layer: int, page: int) -> int:
        """Byte offset in the pool of one page of one (buffer, layer)."""
        names = [b.name for b in self.format.buffers]
        self.format.buffer(buffer)
        return int(self.native_layout.offset(names.index(buffer), layer, page))

    def page_view(self, buffer: str, layer: int, page: int) -> npt.NDArray[np.uint8]:
        """The bytes of one page of one (buffer, layer), uint8 [page_bytes], not a copy."""
        start = self.offset(buffer, layer, page)
        return self.view()[start : start + self.format.buffer(buffer).page_bytes]

    def close(self) -> None:
        """Let go of the mapping; views that are still held keep it alive. Idempotent."""
        self._closed = True
        self._memory = None
        if self._claim is not None:
            self._claim.close()

    def check(self) -> None:
        """Also the guard zones around the mapping, where the build has them."""
        super().check()
        if self._memory is not None:
            native_check(self._memory)


def _host_pages(format: PoolFormat, pages: int | None, size: int | str | None) -> int:
    if (pages is None) == (size is None):
        raise ValueError(
            f"give exactly one of host_pages and host_size, got host_pages={pages!r}, "
            f"host_size={size!r}"
        )
    if pages is not None:
        return page_count(pages, "host_pages")
    nbytes = parse_size(size if size is not None else 0, "host_size")
    count = nbytes // format.page_bytes
    if count > MAX_PAGES:
        raise ValueError(
            f"host_size={size!r} is {count} pages of {format.page_bytes} bytes; "
            f"the largest pool has {MAX_PAGES}"
        )
    if count == 0:
        raise ValueError(
            f"host_size={size!r} is {nbytes} bytes, one page of {format.name!r} takes "
            f"{format.page_bytes}; give at least that, or host_pages=0 for no host tier"
        )
    return count
