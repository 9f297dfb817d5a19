"""``HostPool``: host pages, in one mapping."""

from __future__ import annotations

import atexit
import logging
import warnings
import weakref
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hicache_nsa import _core
from hicache_nsa.errors import HiCacheError, native_check
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import one_of
from hicache_nsa.memory_budget import Claim
from hicache_nsa.pools.host_file import (
    RestoredPages,
    block_bytes,
    close_if_it_fails,
    open_host_file,
)
from hicache_nsa.pools.host_room import claim_host_room
from hicache_nsa.pools.host_size import bytes_of_pages, host_page_count
from hicache_nsa.pools.memory_kind import MemoryKind, huge_page_bytes, untouched_bytes
from hicache_nsa.pools.memory_options import HostMemoryOptions
from hicache_nsa.pools.numa import node_for
from hicache_nsa.pools.pool import Pool, native_format
from hicache_nsa.sizes import format_size
from hicache_nsa.tokens import NO_PAGES, PageIds, int64_array

_log = logging.getLogger(__name__)
LAYOUTS = ("layer_first", "page_first", "page_first_direct")


class HostPool(Pool):
    """Host pages in one mapping that this object owns and makes ready for use.

    Exactly one of pages and size: ``size`` (bytes or "50GiB") counts everything, every layer and
    buffer, with ``host_file`` all of the file, and is never rounded up. The memory budget is asked
    before anything is mapped. A view taken from ``memory`` keeps the mapping alive.
    layout: ``layer_first``, ``page_first`` or ``page_first_direct``.
    memory_options: those of ``HostMemoryOptions``.
    digests: of what was saved into the pages; kept by transfer engines that ``verify``, and in a
        host file for the next process.

    Memory gets *ready* (touched, and registered with the GPU of an engine) from its first byte on:
    the first ``prepare_first`` bytes when it is made, the rest in the background. The pages of a
    pool alone can all be used from the beginning: those that aren't ready are slower at first.
    """

    _preparation_held = False  # see hicache_nsa.testing.hold_preparation

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
        count = host_page_count(format, layout, pages, size, self._options.path)
        super().__init__("host", count)
        self.native_layout = _core.HostLayout(native_format(format), layout, self.num_pages)
        self.digests = _core.PageDigests(self.num_pages, format.num_layers)
        self.growing = False
        self._device = "cpu"
        self._memory: _core.HostMemory | None = None
        self._claim: Claim | None = None
        self._file: _core.HostFile | None = None
        self._restored: RestoredPages | None = None
        self._closed = False

    @property
    def nbytes(self) -> int:
        """Bytes of the whole pool: pages times ``format.page_bytes``."""
        return int(self.native_layout.total_bytes)

    @property
    def ready_bytes(self) -> int:
        """Of them, from the first one on, so many are ready; 0 before memory is made."""
        return 0 if self._memory is None else self._memory.ready_bytes

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
            options = self._options
            size_of = bytes_of_pages(self.format, self.layout, options.path)
            claim = claim_host_room(self.num_pages, size_of, self._missing_bytes(), options)
            try:
                self._memory = self._make_memory(claim)
            except MemoryError as error:
                claim.close()
                raise HiCacheError(
                    f"no memory for a host pool of {self.num_pages} pages "
                    f"({format_size(self.nbytes)}): {error}; ask for fewer"
                ) from error
            except BaseException:
                claim.close()
                raise
            self._claim = claim
            self._settle()
            _pools.add(self)
            if self._memory.warning:
                warnings.warn(self._memory.warning, RuntimeWarning, stacklevel=3)
        return self._memory

    def _settle(self) -> None:
        """Tell the budget, and the file, how much of the memory is still to be taken."""
        memory, file, whole = self.memory, self._file, self.nbytes
        left = whole - self.ready_bytes if self._options.prefault else 0
        if file is not None and left == 0:
            file.note_backed()
        assert self._claim is not None
        if memory.huge_pages == "explicit" or (file is not None and file.backed):
            self._claim.settle(0)  # reserved: no longer among what is free
        elif self._options.prefault:
            self._claim.settle(left)
        else:
            self._claim.settle(partial(untouched_bytes, memory.address, whole))

    def memory_for(self, device: str) -> _core.HostMemory:
        """``memory``; if it is made now, near ``device`` (``numa="auto"``)."""
        self._device = device
        return self.memory

    @property
    def memory_kind(self) -> MemoryKind:
        """What the memory is and how much of it is ready and pinned; makes it if need be."""
        memory = self.memory
        ready, pinned = memory.ready_bytes, memory.registered_bytes[0]
        return MemoryKind(
            nbytes=self.nbytes,
            ready_bytes=ready,
            pinned_bytes=pinned,
            pageable_bytes=max(ready - pinned, 0),
            huge_pages=memory.huge_pages,
            numa_node=None if memory.node < 0 else memory.node,
        )

    def huge_page_bytes(self) -> int:
        """How much of the memory lies in huge pages now; see ``memory_kind.huge_page_bytes``."""
        return huge_page_bytes(self.memory.address, self.nbytes)

    # -- getting ready ----------------------------------------------------------------------------

    def wait_ready(self, timeout: float | None = None) -> bool:
        """Wait until all of the memory is ready, with the GIL released; False at the limit.

        timeout: seconds, None: no limit.

        Raises:
            HiCacheError: it never will be: no more memory, a chunk that ``pin_memory=True`` asked
                for was refused, or the pool was closed.
        """
        try:
            return self.memory.wait_ready(timeout)
        except RuntimeError as error:
            raise HiCacheError(str(error)) from error

    def begin_service(self, wait: bool) -> None:
        """An engine copies from now on. wait: until all is ready.

        Otherwise the pool has the pages that are ready and *grows*: ``take_in_ready`` brings the
        others in. Not in ``layer_first``, where each page is spread over all of the memory, and not
        where pages have been handed out already: there this waits, too.
        """
        if wait or self.layout == "layer_first" or self.free_pages < self.num_pages:
            self.wait_ready()
        else:
            self._allocator = _core.PageAllocator(self.num_pages, np.empty(0, np.int64), 0)
        self.growing = True
        self.take_in_ready()
        if self.growing:
            _log.info(
                "%s of a host pool of %s are ready, the rest follows",
                format_size(self.ready_bytes),
                format_size(self.nbytes),
            )

    def take_in_ready(self) -> None:
        """Let the pages that have become ready since be handed out, and tell what went wrong.

        Raises:
            HiCacheError: once, if ``pin_memory=True`` could not be had for more memory. The pool
                keeps the pages that it has.
        """
        ready, ended, notes = self.memory.take_ready()
        if self.layout == "layer_first":
            pages = self.num_pages if ready == self.nbytes else 0
        else:
            pages = ready // self.format.page_bytes
        self._allocator.grow(pages)
        self._settle()
        if ended and pages == self.num_pages and self.growing:
            _log.info("a host pool of %s is ready", format_size(self.nbytes))
        self.growing = not ended
        for error, text in notes:  # errors last
            if error:
                raise HiCacheError(text)
            warnings.warn(text, RuntimeWarning, stacklevel=4)

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

    @property
    def _fingerprint(self) -> str:
        """Everything that decides what the bytes of a page mean."""
        weights = self._options.weights
        return self.format.fingerprint + (f"|weights={weights}" if weights else "")

    def _missing_bytes(self) -> int:
        """Bytes that are still to be taken from the system."""
        path = self._options.path
        if path is None:
            return self.nbytes
        block = block_bytes(path)
        return _core.host_file_missing(path, self.native_layout, self._fingerprint, block)

    def _make_memory(self, claim: Claim) -> _core.HostMemory:
        """The mapping, anonymous or of the file; the pages of what the file has are allocated."""
        options = self._options
        preparation: dict[str, Any] = {
            "threads": options.prepare_threads,
            "prefault": options.prefault,
            "huge_pages": options.huge_pages,
            "node": node_for(options.numa, self._device),
            "first_bytes": options.first_bytes,
            "step_bytes": options.step_bytes,
            "held": self._preparation_held,
        }
        if options.path is None:
            return _core.HostMemory(self.nbytes, most=claim.nbytes, **preparation)
        file, restored = open_host_file(
            options.path, self.native_layout, self._fingerprint, options.prefault
        )
        with close_if_it_fails(file, options.path):
            memory = file.memory(**preparation)
            self.digests = _core.PageDigests(
                self.num_pages, self.format.num_layers, memory=file.digests()
            )
            if len(restored.pages):
                self._allocator = _core.PageAllocator(
                    self.num_pages, NO_PAGES, allocated=restored.pages
                )
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
        self.withdraw(ids)

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

    def withdraw(self, pages: PageIds) -> None:
        """No process finds ``pages`` any more, whether they are free already or not."""
        if self._file is not None:
            self._file.withdraw(pages)

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
        """End the preparation and let go of the mapping; views that are still held keep it alive.

        A file stays, for its next owner. Idempotent.
        """
        self._closed = True
        self.growing = False
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.stop()
        if self._file is not None:
            self.digests = _core.PageDigests(self.num_pages, self.format.num_layers)
            self._file.close()
            self._file = None
        if self._claim is not None:
            self._claim.close()

    def check(self) -> None:
        """Also the guard zones around the mapping, where the build has them."""
        super().check()
        if self._memory is not None:
            native_check(self._memory)


_pools: weakref.WeakSet[HostPool] = weakref.WeakSet()


@atexit.register
def _stop_preparing() -> None:
    """Threads of ours must not be registering memory while CUDA is taken down."""
    for pool in list(_pools):
        if pool._memory is not None:
            pool._memory.stop()


def _in_32_bits(priority: int) -> int:
    """What an entry of a page table keeps of a priority."""
    return min(max(priority, -(1 << 31)), (1 << 31) - 1)
