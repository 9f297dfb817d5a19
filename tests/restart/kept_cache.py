"""A small cache with a host file; everything that it finds on host is compared byte by byte."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from engine import PAGE, fill, host_holds, identity

import hicache_nsa as hc

FORMAT = hc.formats.dsa(3, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4, index_layers=(0, 2))


class KeptCache:
    """Counts tokens; ``cache`` is the real one."""

    def __init__(self, file: Path, host_pages: int = 40, **options: Any) -> None:
        options = {"device_pages": 24, "host_pages": host_pages, **options}
        self.cache = hc.HiCache(FORMAT, host_file=file, **options)
        self.cache.check()

    def put(self, tokens: Iterable[int], key: str | None = None, **options: Any) -> None:
        """Compute and insert whole pages; the caller waits for the saves."""
        ids = np.array(list(tokens), dtype=np.int64)
        pages = self.cache.allocate(len(ids) // PAGE)
        for index, page in enumerate(pages.tolist()):
            fill(self.cache, page, identity(key, ids, index))
        self.cache.insert(ids, pages, extra_key=key, **options)

    def save(self, tokens: Iterable[int], key: str | None = None, **options: Any) -> None:
        """``put``, and wait until it is on host."""
        self.put(tokens, key, **options)
        assert self.cache.drain(30)

    def found(self, tokens: Iterable[int], key: str | None = None) -> int:
        """Host tokens, on a cache that has none on the device."""
        ids = np.array(list(tokens), dtype=np.int64)
        match = self.cache.match_prefix(ids, extra_key=key, count=False)
        assert match.device_tokens == 0
        for index, page in enumerate(match.host_pages.tolist()):
            assert host_holds(self.cache, page, identity(key, ids, index)), (key, index)
        return match.host_tokens

    def __enter__(self) -> KeptCache:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cache.check()
        self.cache.close()
