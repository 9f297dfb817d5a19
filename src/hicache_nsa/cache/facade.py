"""``HiCache``, the public face: checks its arguments, then hands over to the other modules."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from hicache_nsa.cache import audit, flushing, reclaim
from hicache_nsa.cache.allocating import allocate_device_pages, copy_to_await, out_of_pages_yet
from hicache_nsa.cache.closing import close_state
from hicache_nsa.cache.demoting import evict_device_pages
from hicache_nsa.cache.ends import Ends
from hicache_nsa.cache.engine import make_engine
from hicache_nsa.cache.flushing import ResetReport
from hicache_nsa.cache.guard import Guard, atomic
from hicache_nsa.cache.handles import Epoch, LockHandle, PrefixMatch
from hicache_nsa.cache.inserting import InsertResult, insert_pages
from hicache_nsa.cache.insertion import Insertion
from hicache_nsa.cache.ledger import Ledger
from hicache_nsa.cache.load_back import LoadBack
from hicache_nsa.cache.loading import load_back, most_pages
from hicache_nsa.cache.locking import lock_match, require_handle, require_match, unlock_handle
from hicache_nsa.cache.matching import match_prefix
from hicache_nsa.cache.options import (
    check_options,
    low_water_share,
    share_of_pages,
    threshold_tokens,
)
from hicache_nsa.cache.pinning import pin_match
from hicache_nsa.cache.pins import Pin, Pins, pin_clock, pin_seconds, pin_share_of
from hicache_nsa.cache.polling import CachePolling
from hicache_nsa.cache.state import CacheState
from hicache_nsa.cache.warm_restart import restore_tree
from hicache_nsa.cache.write_policy import write_policy as write_policy_of
from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import count_of
from hicache_nsa.pools import HostPool, split_memory_options
from hicache_nsa.stats import CacheStats
from hicache_nsa.streams import Stream, check_stream
from hicache_nsa.tokens import ExtraKey, PageIds, Tokens, page_ids, short_namespace, token_span
from hicache_nsa.transfer import D2H, Ticket
from hicache_nsa.tree import EvictionPolicy, RadixTree

SAVE_WAIT_SECONDS = 2.0


class HiCache(CachePolling):
    """Device and host tier of one model's KV. Every method is atomic and may run in any thread.

    format: which buffers a page has (``formats.dsa(...)``, ...).
    device: ``"cpu"``, ``"cuda"`` (the current GPU) or ``"cuda:N"``, as far as the build has it.
    device_buffers: {buffer name: one tensor per owning layer}, the engine's own memory; else
        device_pages: how many the cache makes. device_reserved: page ids never handed out.
    host_pages, host_size: one of them; the size (bytes, "50GiB") counts everything. 0: no tier.
        The cache serves once ``prepare_first`` of it is ready; the tier grows while the rest gets
        ready in the background (``acks="poll"`` and ``layer_first`` wait for all of it).
    layout: ``layer_first``, ``page_first``, ``page_first_direct``. io_backend: see
        ``TransferEngine``, whose further keywords (staging_bytes ...) are taken too, as are those
        of ``HostMemoryOptions``.
    pin_memory: ``auto`` page-locks the host pool for a GPU and warns if that fails; True must.
    write_policy: ``write_through`` saves at insert; ``write_through_selective`` from the
        ``write_threshold``-th hit of a node; ``write_back`` when it is evicted from the device.
    low_water: share of the device pages (0 to 0.5) that ``poll()`` keeps free under write back.
    eviction_policy: ``lru``, ``lfu``, ``fifo``, ``mru``, ``filo``, ``slru``, ``priority`` or your
        own ``EvictionPolicy()``, for both tiers.
    load_back_threshold: tokens; smaller host hits are not loaded. Default one page.
    spare: share of pages that eviction leaves free (0 to 0.5). stream: where a call's own is None.
    pin_share: share of each tier's pages (0 to 0.9) that pins may hold together.
    clock: seconds, for the ends of pins. With ``acks="poll"`` give one that the ranks agree on
        (a count of steps, the first rank's time): it is asked once a ``pin``, ``poll``, ``drain``.
    acks: ``auto`` takes in finished copies in any call, ``poll`` only in ``poll()`` and in calls
        that wait for all of them (drain, reset, clear, close).

    Raises:
        ValueError, TypeError: an argument that doesn't fit, before any memory is made.
        HiCacheError: a device this build has no backend for, or no memory for the host pool.
    """

    def __init__(
        self,
        format: PoolFormat,
        *,
        device: str = "cpu",
        device_pages: int | None = None,
        device_buffers: Mapping[str, Sequence[Any]] | None = None,
        device_reserved: Iterable[int] = (),
        host_pages: int | None = None,
        host_size: int | str | None = None,
        layout: str = "page_first",
        io_backend: str = "auto",
        write_policy: str = "write_through",
        write_threshold: int = 2,
        low_water: float = 0.0,
        eviction_policy: str | EvictionPolicy = "lru",
        load_back_threshold: int | None = None,
        spare: float = 0.0,
        pin_memory: bool | str = "auto",
        pin_share: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
        stream: Stream = None,
        acks: str = "auto",
        **options: Any,
    ) -> None:
        memory_options, engine_options = split_memory_options(options)
        check_options(
            format, io_backend, write_policy, write_threshold, eviction_policy, pin_memory, acks,
            engine_options,
        )  # fmt: skip
        threshold = threshold_tokens(load_back_threshold, format)
        spare = share_of_pages(spare, "spare")
        low_water = low_water_share(low_water, write_policy)
        pins = Pins(pin_share_of(pin_share), pin_clock(clock))
        host = HostPool(format, host_pages, host_size, layout, **memory_options)
        device_pool = self._pool_type(format, device_buffers, device_pages, device, device_reserved)
        check_stream(stream, device_pool.device)
        self._guard = Guard()
        self._polled = acks == "poll"
        options = {**engine_options, "pin_memory": pin_memory, "wait_ready": self._polled}
        engine = make_engine(self._engine_type, device_pool, host, io_backend, options)
        self._state = CacheState(
            format=format,
            tree=RadixTree(format.page_size, eviction_policy),
            ledger=Ledger(device_pool),
            host=host,
            engine=engine,
            load_back_threshold=threshold,
            stream=stream,
            epoch=Epoch(self._guard),
            pins=pins,
            write_policy=write_policy_of(write_policy, write_threshold),
            spare=spare,
            low_water=low_water,
        )
        self._ends = Ends(self._guard, self._state, self._polled)
        restore_tree(self._state)

    # -- the life of a request ------------------------------------------------------------------

    @atomic
    def match_prefix(
        self, tokens: Tokens, *, extra_key: ExtraKey = None, count: bool = True
    ) -> PrefixMatch:
        """The longest cached prefix of ``tokens``, in whole pages. Never changes what is cached.

        extra_key: LoRA id, salt, ...; different keys never share anything.
        count: False leaves hits and order of use alone (a scheduler that looks again each step).
        """
        self._take_in()
        return match_prefix(self._state, token_span(tokens), short_namespace(extra_key), count)

    @atomic
    def load_back(
        self, match: PrefixMatch, *, max_tokens: int | None = None, stream: Stream = None
    ) -> LoadBack | None:
        """Bring the host part of ``match`` to the device, layer by layer; the path is locked.

        None, with no side effect: nothing to load (any more), below ``load_back_threshold``, the
        device part is gone, or not enough device pages even after eviction. A prefix that is
        loading already is joined. ``match.load_tokens`` says what it will cost. Under
        ``write_back`` also None where the pages in its way have to be saved first: that starts,
        and a later call finds them free (``low_water`` keeps some free ahead).

        max_tokens: bring the leading part only, at most so many tokens (rounded down to pages),
            and no more than the device has room for. None: all of the host part, or nothing.

        Raises:
            StaleHandleError: the match is from before a flush.
        """
        max_pages = most_pages(max_tokens, self._state.page_size)
        self._take_in()
        require_match(self._state, match)
        check_stream(stream, self.device_pool.device)
        load = load_back(self._state, match, max_pages, self._ends)
        self._state.counters.declined_loads += load is None and match.host_tokens > 0
        return load

    def allocate(self, num_pages: int) -> PageIds:
        """``num_pages`` device pages for the caller, int64, neighbours where possible.

        Evicts what is missing (and ``spare`` pages) and no more. Where that is not enough because
        pages are still being saved, or loaded for a tree that ``invalidate`` gave up, waits for
        those copies (not with ``acks="poll"``), with the lock and the GIL released, as long as one
        ends every SAVE_WAIT_SECONDS. Under ``write_back`` the saves start here; once two have
        failed (with ``acks="poll"``: the last two taken in), pages are dropped without.

        Raises:
            OutOfPages: not enough even so, with the numbers; nothing changed (under ``write_back``
                saves may have started: with ``acks="poll"``, poll and try again).
        """
        count = count_of(num_pages, "num_pages")
        failed = self._state.counters.failed_saves
        result = self._allocate(count, True, failed)
        while isinstance(result, Ticket):
            result = self._allocate(count, result.wait_end(SAVE_WAIT_SECONDS), failed)
        return result

    @atomic
    def free(self, pages: Any, *, stream: Stream = None) -> None:
        """Give up pages that the caller owns, after the work queued on ``stream``.

        Raises:
            ValueError: a page that is free, cached, or named twice; nothing changed.
        """
        ids = page_ids(pages, self.device_pool.num_pages)
        fence = self._state.fence(stream)
        self._state.ledger.refuse_duplicates(ids)
        self._state.ledger.require_owned(ids, "freed")
        self._state.ledger.free(ids, fence)

    @atomic
    def insert(
        self,
        tokens: Tokens,
        pages: Any,
        *,
        extra_key: ExtraKey = None,
        stream: Stream = None,
        priority: int = 0,
        lock: bool | LockHandle | None = None,
    ) -> InsertResult:
        """Cache computed pages: ``pages[i]`` holds whole page i of ``tokens``.

        Takes ownership of the pages used (one a whole page); surplus pages stay the caller's.
        Duplicates of what is on the device are freed, ``result.pages`` names the ones to use. A
        node that is only on host adopts the caller's pages. The save starts at once, ordered
        after ``stream``; the host never waits. Pages behind a LoadBack that is still in flight
        are matched and saved only once that load is in.
        lock: True, or the handle held so far (released once the whole new path is locked).

        Raises:
            ValueError: too few pages, or one that isn't the caller's; nothing changed.
            StaleHandleError: a handle from before a flush, or a page from before ``invalidate``.
        """
        self._take_in()
        state = self._state
        span = token_span(tokens)
        count = len(span) // state.page_size
        given = page_ids(pages, self.device_pool.num_pages)
        if len(given) < count:
            raise ValueError(f"{count} whole pages of tokens, but only {len(given)} pages")
        given = given[:count]
        state.ledger.refuse_duplicates(given)
        old = lock if isinstance(lock, LockHandle) else None
        if old is not None:
            require_handle(state, old)
        elif lock is not None and not isinstance(lock, bool):
            raise TypeError(f"lock must be True or a handle, got {type(lock).__name__}")
        insertion = Insertion(
            tokens=span.slice(0, count * state.page_size),
            namespace=short_namespace(extra_key),
            pages=given,
            fence=state.fence(stream),
            priority=count_of(priority, "priority", least=None),
        )
        result = insert_pages(state, insertion, old is not None or lock is True)
        if old is not None:
            unlock_handle(state, old, stream)
        return result

    @atomic
    def lock(self, match: PrefixMatch) -> LockHandle:
        """Protect what is still cached of ``match`` and all above it, in both tiers.

        Raises:
            StaleHandleError: the match is from before a flush.
        """
        self._take_in()
        require_match(self._state, match)
        return lock_match(self._state, match)

    @atomic
    def unlock(self, handle: LockHandle, *, stream: Stream = None) -> None:
        """End a lock, after the work queued on ``stream``. A no-op for one from before a flush.

        Raises:
            ValueError: the handle was unlocked already.
        """
        unlock_handle(self._state, handle, stream)
        self._take_in()

    @atomic
    def pin(self, match: PrefixMatch, seconds: float) -> Pin:
        """``lock`` that ends by itself, ``seconds`` from now; no call on the pin is needed.

        It ends in the next call that looks at what is cached or takes room, with ``acks="poll"``
        in the next ``poll()`` or ``drain()``; ``Pin.release()`` ends it now, and so does a flush.
        What a load or a save brings to the prefix later is protected too.

        Raises:
            OutOfPages: pins would hold more than ``pin_share`` of a tier; nothing changed.
            StaleHandleError: the match is from before a flush.
        """
        span = pin_seconds(seconds)
        self._take_in()
        require_match(self._state, match)
        return pin_match(self._state, match, span, self._ends)

    # -- room and copies ------------------------------------------------------------------------

    @atomic
    def evict_device(self, num_tokens: int) -> int:
        """Evict device pages for ``num_tokens``, rounded up to pages; returns the tokens freed.

        Under ``write_back`` also those that are being saved: they are free once that is taken in.
        """
        pages = -(-count_of(num_tokens, "num_tokens") // self._state.page_size)
        self._take_in()
        evicted = evict_device_pages(self._state, pages)
        return (evicted.freed + evicted.leaving) * self._state.page_size

    @atomic
    def evict_host(self, num_tokens: int) -> int:
        """Evict host pages for ``num_tokens``, rounded up to pages; returns the tokens freed."""
        pages = -(-count_of(num_tokens, "num_tokens") // self._state.page_size)
        self._take_in()
        return reclaim.evict_host_pages(self._state, pages) * self._state.page_size

    # -- flush ----------------------------------------------------------------------------------

    def reset(self) -> ResetReport:
        """Flush: the device forgets everything, the host keeps its copies, which go on matching.

        Copies in flight are finished first. Locks and pins end, handles and matches are stale.
        Pages that callers own stay theirs until ``free``. Not enough after a change of weights: the
        host copies belong to the old ones; call ``invalidate()``.
        """
        return self._when_idle(flushing.reset)

    def clear(self) -> None:
        """Empty both tiers. Pages that callers own stay theirs."""
        self._when_idle(flushing.clear)

    @atomic
    def invalidate(self) -> None:
        """The weights changed: both tiers empty, and no page computed before can come back.

        Locks and pins end, handles and matches are stale. Pages that callers own stay theirs and
        can only be freed; ``insert`` of one raises ``StaleHandleError``.
        Waits for nothing, and takes as long for any number of cached pages. What was cached counts
        as free at once, and is freed bit by bit: in ``poll``, where pages are needed, and all of it
        in ``drain``, ``reset`` and ``clear``. Copies in flight end without effect; their pages are
        free from their ack on.
        """
        flushing.invalidate(self._state, self._state.fence(None))

    # -- looking at it --------------------------------------------------------------------------

    @atomic
    def stats(self) -> CacheStats:
        """Pages by state in both tiers, copies in flight, and the counters."""
        self._take_in()
        return audit.stats(self._state)

    # -- the end --------------------------------------------------------------------------------

    def close(self) -> None:
        """Finish copies and release the memory. Idempotent; later calls raise ``HiCacheError``.

        A copy behind a stream that does not get there within 5 seconds fails instead. A
        ``host_file`` stays, with what was saved.
        """
        with self._guard.lock:
            if self._guard.unusable is None:
                self._guard.unusable = "the cache is closed"
                close_state(self._state)

    def __enter__(self) -> HiCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # -- inside ---------------------------------------------------------------------------------

    @atomic
    def _allocate(self, num_pages: int, may_wait: bool, failed: int) -> PageIds | Ticket:
        """The pages, or the oldest of the copies that stand in their way.

        failed: saves that had failed when the caller came; after one more it is tried once more.
        """
        self._take_in()
        state = self._state
        if self._polled:  # one call sees no ack: what counts is what the last polls took in
            save = state.failed_in_a_row < 2
        else:
            save = state.counters.failed_saves <= failed + 1
        waits = may_wait and not self._polled
        copy = copy_to_await(state, num_pages) if waits else None
        if copy is not None:
            return copy.ticket
        pages = allocate_device_pages(state, num_pages, save=save)
        if pages is not None:
            state.failed_in_a_row = state.failed_in_a_row if save else 0
            return pages
        if waits and not self.engine.held(D2H):
            return state.saves[0].ticket
        raise out_of_pages_yet(state, num_pages)
