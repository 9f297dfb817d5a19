"""A serving engine in its smallest form: one request at a time through the cache.

    match -> lock -> load back -> allocate -> prefill, page by page -> first token
          -> insert the prompt's whole pages -> decode -> insert the answer's -> unlock, free

The model's arithmetic for a position does not depend on where a chunk of the prefill began, so a
cold and a warm run compute equal values bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hicache_nsa import HiCache, LoadBack, LockHandle, PrefixMatch, TransferError
from hicache_nsa.demo.digests import PageDigests
from hicache_nsa.demo.stopwatch import Stopwatch
from hicache_nsa.reference import Pools, ReferenceModel

LOAD_ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Answer:
    """What one request did; times in seconds, those spent on digests left out."""

    generated: tuple[int, ...]
    prompt_tokens: int
    device_hit_tokens: int
    host_hit_tokens: int
    ttft_seconds: float
    seconds: float

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens that the model had to compute."""
        return self.prompt_tokens - self.device_hit_tokens - self.host_hit_tokens


@dataclass(slots=True)
class _Request:
    """A request being served.

    ``tokens``: prompt and answer so far. ``pages[i]`` holds page i of them: first ``device_pages``
    pages that were on device, then those that ``load`` brings, then the request's own, from page
    ``owned`` on.
    """

    tokens: list[int]
    match: PrefixMatch
    handle: LockHandle
    load: LoadBack | None
    pages: npt.NDArray[np.int64]
    owned: int

    @property
    def device_pages(self) -> int:
        return len(self.match.device_pages)


class Engine:
    """Answers prompts by greedy decoding with ``model`` over the pages of ``cache``."""

    def __init__(
        self,
        model: ReferenceModel,
        pools: Pools,
        cache: HiCache,
        digests: PageDigests,
        max_new_tokens: int,
    ) -> None:
        self._model = model
        self._pools = pools
        self._cache = cache
        self._digests = digests
        self._max_new_tokens = max_new_tokens
        self._page_size = cache.format.page_size

    def answer(self, prompt: Sequence[int]) -> Answer:
        """Serve one prompt of at least one token.

        A load that fails is a miss: the request starts anew. After LOAD_ATTEMPTS the TransferError
        goes to the caller. Raises OutOfPages when the device pool is too small for the prompt.
        """
        watch = Stopwatch()
        for _ in range(LOAD_ATTEMPTS - 1):
            try:
                return self._serve(prompt, watch)
            except TransferError:
                continue
        return self._serve(prompt, watch)

    def _serve(self, prompt: Sequence[int], watch: Stopwatch) -> Answer:
        request = self._admit(prompt)
        try:
            generated = [self._prefill(request)]
            ttft = watch.seconds()
            self._compare_loaded(request, watch)
            self._insert(request, len(prompt), watch)
            while len(generated) < self._max_new_tokens:
                generated.append(self._decode(request, generated[-1]))
            self._insert(request, len(request.tokens), watch)
        finally:
            self._end(request)
        host_tokens = request.load.tokens if request.load is not None else 0
        device_tokens = request.match.device_tokens
        return Answer(
            tuple(generated), len(prompt), device_tokens, host_tokens, ttft, watch.seconds()
        )

    def _admit(self, prompt: Sequence[int]) -> _Request:
        """Find what is cached, start to bring the host part, and get pages for all the rest.

        The last prompt token is always computed: its output is the first token of the answer.
        """
        match = self._cache.match_prefix(prompt[:-1])
        handle = self._cache.lock(match)
        load = self._cache.load_back(match)
        cached = [match.device_pages] if load is None else [match.device_pages, load.pages]
        pages = np.concatenate(cached)
        request = _Request(list(prompt), match, handle, load, pages, len(pages))
        slots = len(prompt) + self._max_new_tokens - 1  # the last token is never fed to the model
        try:
            own = self._cache.allocate(-(-slots // self._page_size) - len(pages))
        except BaseException:
            self._end(request)
            raise
        request.pages = np.concatenate([pages, own])
        return request

    def _prefill(self, request: _Request) -> int:
        """Compute what was not cached, a page at a time; return the first token of the answer.

        Each layer waits for its own part of the load only, so the first layers compute while the
        last are on their way. The token may be used once the load has ended well.
        """
        load = request.load
        with self._cache.timeline.span("prefill"):
            logits = self._model.prefill(
                request.tokens,
                torch.from_numpy(request.pages),
                self._pools,
                start=request.owned * self._page_size,
                wait_layer=None if load is None else load.wait_layer,
            )
        if load is not None:
            load.wait()
        return int(logits.argmax())

    def _decode(self, request: _Request, token: int) -> int:
        """Append ``token`` to the request, compute it, and return the likeliest next one."""
        position = len(request.tokens)
        request.tokens.append(token)
        pages = torch.from_numpy(request.pages)
        with self._cache.timeline.span("decode"):
            return int(self._model.decode_step(token, position, pages, self._pools).argmax())

    def _compare_loaded(self, request: _Request, watch: Stopwatch) -> None:
        if request.load is None:
            return
        with watch.paused():
            end = request.device_pages + len(request.load.pages)
            prefix = request.tokens[: end * self._page_size]
            self._digests.compare(prefix, request.pages, request.device_pages)

    def _insert(self, request: _Request, computed: int, watch: Stopwatch) -> None:
        """Give the cache the whole pages of the first ``computed`` tokens that it does not have yet
        from this request; go on with the pages that it names.
        """
        whole = computed // self._page_size
        if whole <= request.owned:
            return
        tokens = request.tokens[: whole * self._page_size]
        with watch.paused():
            self._digests.record(tokens, request.pages, request.owned)
        result = self._cache.insert(tokens, request.pages[:whole], lock=request.handle)
        assert result.handle is not None
        request.pages[:whole] = result.pages
        request.handle, request.owned = result.handle, whole

    def _end(self, request: _Request) -> None:
        """Give up everything that the request holds; take in the copies that have finished."""
        if request.load is not None:
            request.load.release()
        self._cache.unlock(request.handle)
        self._cache.free(request.pages[request.owned :])
        self._cache.poll()
