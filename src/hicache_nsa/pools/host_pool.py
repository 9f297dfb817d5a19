"""``HostPool``: host pages, in one mapping."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError, native_check
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import one_of
from hicache_nsa.pools.host_file import RestoredPages, block_bytes, open_host_file
from hicache_nsa.pools.memory_options import HostMemoryOptions
from hicache_nsa.pools.pool import MAX_PAGES, Pool, native_format, page_count
from hicache_nsa.sizes import format_size, parse_size
from hicache_nsa.tokens import NO_PAGES, PageIds, int64_array

LAYOUTS = ("layer_first", "page_first", "page_first_direct")


class HostPool(Pool):
    """Host pages in one mapping that this object owns and prefaults.

    Exactly one of pages and size: ``size`` (bytes or "50GiB") counts everything, every layer and
    buffer, with ``host_file`` all of the file, and is never rounded up. A view taken from
    ``memory`` keeps the mapping alive.
    layout: ``layer_first``, ``page_first`` or ``page_first_direct``.
    memory_options: those of ``HostMemoryOptions``.
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
        self._options = HostMemoryOptions(**memory_options)
        count = _host_pages(format, pages, size)
        if self._options.path is not None:
            count = _pages_in_file(format, layout, count, size, self._options.path)
        super().__init__("host", count)
        self.native_layout = _core.HostLayout(native_format(format), layout, self.num_pages)
        self._memory: _core.HostMemory | None = None
        self._file: _core.HostFile | None = None
        self._restored: RestoredPages | None = None
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of the whole pool: pages times ``format.page_bytes``."""
        return int(self.native_layout.total_bytes)

    @property
    def memory(self) -> _core.HostMemory:
        """The mapping, made at the first use; ``HiCacheError`` if the system refuses it."""
        if self._closed:
            raise HiCacheError("the host pool is closed")
        if self._memory is None:
            try:
                self._memory = self._make_memory()
            except MemoryError as error:
                raise HiCacheError(
                    f"no memory for a host pool of {self.num_pages} pages "
                    f"({format_size(self.nbytes)}): {error}; ask for fewer"
                ) from error
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

    def _make_memory(self) -> _core.HostMemory:
        """The mapping, anonymous or of the file; the pages of what the file has are allocated."""
        prefault = self._options.prefault
        if self._options.path is None:
            return _core.HostMemory(self.nbytes, prefault=prefault)
        pages_of = self.format.fingerprint
        if self._options.weights:
            pages_of += f"|weights={self._options.weights}"
        file, restored = open_host_file(self._options.path, self.native_layout, pages_of)
        memory = file.memory(prefault=prefault)
        self._allocator = _core.PageAllocator(self.num_pages, NO_PAGES, restored.pages)
        self._file, self._restored = file, restored
        return memory

    def allocate(self, num_pages: int) -> PageIds:
        """See ``Pool``. The pages of what the file has are not free."""
        if self._options.path is not None:
            _ = self.memory
        return super().allocate(num_pages)

    def free(self, pages: Any) -> None:
        """See ``Pool``. The file's page table does not name the pages any more."""
        ids = int64_array(pages, "pages")
        super().free(ids)
        if self._file is not None:
            self._file.withdraw(ids)

    # -- the page table of a host file: without a file nothing of this does anything -------------

    @property
    def kept(self) -> bool:
        """Whether the pool is in a file, for the next process."""
        return self._file is not None

    def take_restored(self) -> RestoredPages | None:
        """What an earlier process left in the file, once: its pages are the caller's from now on
        and are matched as they are told. None without a file.
        """
        restored, self._restored = self._restored, None
        return restored

    def publish(
        self,
        pages: PageIds,
        before: int | None,
        namespace: bytes,
        tokens: _core.TokenSpan,
        priority: int,
    ) -> None:
        """The bytes of ``pages`` are whole: of the tokens that follow page ``before``, or of the
        first ones of ``namespace`` where that is None. From now on the next process finds them.
        """
        if self._file is not None:
            self._file.publish(pages, before, namespace, tokens, _in_32_bits(priority))

    def set_priority(self, pages: PageIds, priority: int) -> None:
        """Another priority for pages that are published, within 32 bits."""
        if self._file is not None:
            self._file.set_priority(pages, _in_32_bits(priority))

    def renounce(self) -> None:
        """No process finds anything of what was published until now: one store."""
        if self._file is not None:
            self._file.next_generation()

    def published(self) -> PageIds:
        """Every page that the next process would find."""
        return NO_PAGES if self._file is None else self._file.published()

    def close(self) -> None:
        """Let go of the mapping; views that are still held keep it alive. A file stays, for its
        next owner. Idempotent.
        """
        self._closed = True
        self._memory = None
        if self._file is not None:
            self._file.close()
            self._file = None

    def check(self) -> None:
        """Also the guard zones around the mapping, where the build has them."""
        super().check()
        if self._memory is not None:
            native_check(self._memory)


def _in_32_bits(priority: int) -> int:
    """What an entry of a page table keeps of a priority."""
    return min(max(priority, -(1 << 31)), (1 << 31) - 1)


def _pages_in_file(
    format: PoolFormat, layout: str, pages: int, size: int | str | None, path: str
) -> int:
    """``pages``, or where a size was given as many of them as fit with their page table."""
    block = block_bytes(path)
    if pages == 0:
        raise ValueError(f"host_file={path!r} needs a host tier, got host_pages=0")
    if size is None:
        return pages
    limit = parse_size(size, "host_size")

    def file_bytes(count: int) -> int:
        return _core.host_file_bytes(_core.HostLayout(native_format(format), layout, count), block)

    low, high = 0, pages
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if file_bytes(middle) <= limit else (low, middle - 1)
    if low == 0:
        raise ValueError(
            f"host_size={size!r} is {limit} bytes, a host file with one page of {format.name!r} "
            f"takes {file_bytes(1)}"
        )
    return low


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
