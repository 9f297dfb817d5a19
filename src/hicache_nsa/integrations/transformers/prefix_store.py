"""The pages of all prompts: restores the cached prefix of one, takes in what is computed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from transformers.cache_utils import DynamicLayer

from hicache_nsa import HiCache, LoadBack, OutOfPages, PrefixMatch, TransferError
from hicache_nsa.integrations.transformers.paged import PagedTensors
from hicache_nsa.tokens import ExtraKey, PageIds

Tokens = npt.NDArray[np.int64]


class PrefixStore:
    """A ``HiCache`` and the torch memory of its device pages."""

    def __init__(self, hicache: HiCache, paged: PagedTensors) -> None:
        self.hicache = hicache
        self._paged = paged
        self._page_size = hicache.format.page_size

    @torch.no_grad()
    def restore(
        self,
        tokens: Tokens,
        layers: Sequence[DynamicLayer],
        start: int,
        keep: int,
        extra_key: ExtraKey,
    ) -> tuple[int, int]:
        """Append to ``layers``, which hold the first ``start`` of ``tokens``, what is cached of
        the others, all but the last ``keep``. Returns how many came from device and from host.

        Nothing is half restored: a load that fails, or that there is no room for, is a miss.
        """
        match = self.hicache.match_prefix(tokens[: len(tokens) - keep], extra_key=extra_key)
        if match.tokens <= start:
            return 0, 0
        handle = self.hicache.lock(match)
        load = None
        try:
            load = self._load(match) if match.host_tokens else None
            pages = match.device_pages
            if load is not None:
                pages = np.concatenate([pages, load.pages])
            end = len(pages) * self._page_size
            if end <= start:
                return 0, 0
            whole = start // self._page_size
            self._paged.append(pages[whole:], layers, start - whole * self._page_size)
        finally:  # ordered behind the reads queued above
            if load is not None:
                load.release()
            self.hicache.unlock(handle)
        device_end = max(match.device_tokens, start)
        return device_end - start, end - device_end

    @torch.no_grad()
    def take_in(self, tokens: Tokens, layers: Sequence[DynamicLayer], extra_key: ExtraKey) -> None:
        """Cache the whole pages of ``tokens``, all in ``layers``, that are not on the device yet.

        As many leading pages as there is room for; the save to host memory starts at once.
        """
        whole = len(tokens) // self._page_size
        tokens = tokens[: whole * self._page_size]
        match = self.hicache.match_prefix(tokens, extra_key=extra_key, count=False)
        have = len(match.device_pages)
        if have == whole:
            return
        handle = self.hicache.lock(match)  # making room must not evict what this goes below
        try:
            own = self._allocate(whole - have)
            if not len(own):
                return
            try:
                self._paged.fill(own, layers, have)
                pages = np.concatenate([match.device_pages, own])
                end = len(pages) * self._page_size
                self.hicache.insert(tokens[:end], pages, extra_key=extra_key)
            except BaseException:
                self.hicache.free(own)
                raise
        finally:
            self.hicache.unlock(handle)

    def _load(self, match: PrefixMatch) -> LoadBack | None:
        """The host part of ``match``, landed; None if there is no room or the copy failed."""
        load = self.hicache.load_back(match)
        if load is None:
            return None
        try:
            load.wait()
        except TransferError:
            load.release()
            return None
        except BaseException:
            load.release()
            raise
        return load

    def _allocate(self, num_pages: int) -> PageIds:
        """That many pages, or as many as can be had."""
        while True:
            try:
                return self.hicache.allocate(num_pages)
            except OutOfPages:
                device = self.hicache.stats().device
                num_pages = min(num_pages - 1, device.free_pages + device.evictable_pages)
