"""The bytes of pages: what each page must hold, and a look at all of them at once.

Every 8 bytes of a page's record (each layer, latent and index_k alike) are made from one *tag*: the
identity of the prefix whose KV it holds. A page in the wrong place, half copied, or copied into
while it belonged to somebody else differs in some word.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

import hicache_nsa as hc

if TYPE_CHECKING:
    from pool_trace import Submitted

PAGE = 2
POISON = 0x5EED_BAD
FORMAT = hc.formats.dsa(
    2,
    page_size=PAGE,
    kv_dtype="fp8",
    kv_lora_rank=12,
    rope_head_dim=4,
    index_head_dim=8,
    index_block_size=8,
    index_layers=(1,),
)
PARTS = [(b.name, layer, b.page_bytes) for b in FORMAT.buffers for layer in b.layers]
WORDS = FORMAT.page_bytes // 8
_FACTORS = np.arange(WORDS, dtype=np.uint64) * np.uint64(2) + np.uint64(0x9E3779B97F4A7C15)
_TERMS = np.arange(WORDS, dtype=np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
_MASK = (1 << 64) - 1


def tag_of(prefix: tuple[int, ...], version: int) -> int:
    """The tag of the last page of ``prefix``, computed with that version of the weights."""
    return hash((prefix, version)) & _MASK


class PageTags:
    """Device and host memory of one cache, and the tag that each page must hold (if any).

    ``buffers``: for ``HiCache(device_buffers=)``. ``watch_host`` comes once the cache is there.
    """

    def __init__(self, device_pages: int, host_pages: int) -> None:
        self._device = np.zeros((device_pages, WORDS), dtype=np.uint64)
        self._device_tag = np.zeros(device_pages, dtype=np.uint64)
        self._device_known = np.zeros(device_pages, dtype=bool)
        self._device_words = _words(self._device_tag)
        self._host_tag = np.zeros(host_pages, dtype=np.uint64)
        self._host_known = np.zeros(host_pages, dtype=bool)
        self._host_words = _words(self._host_tag)
        self.buffers: dict[str, list[np.ndarray]] = {b.name: [] for b in FORMAT.buffers}
        bytes_of = self._device.view(np.uint8)
        start = 0
        for name, _, size in PARTS:
            self.buffers[name].append(bytes_of[:, start : start + size])
            start += size

    def watch_host(self, pool: hc.HostPool) -> None:
        """Where the words of each host page lie, in the order of the device's record."""
        self._where = np.array(
            [
                [
                    pool.offset(name, layer, page) // 8 + word
                    for name, layer, size in PARTS
                    for word in range(size // 8)
                ]
                for page in range(pool.num_pages)
            ],
            dtype=np.int64,
        ).reshape(pool.num_pages, WORDS)
        self._host = pool.view().view(np.uint64) if pool.num_pages else np.empty(0, np.uint64)

    def write(self, page: int, tag: int) -> None:
        """A caller computes a device page."""
        self._device_tag[page] = tag
        self._device[page] = self._device_words[page] = _words(self._device_tag[page : page + 1])
        self._device_known[page] = True

    def device_tag(self, page: int) -> int | None:
        return int(self._device_tag[page]) if self._device_known[page] else None

    def forget_device(self, pages: np.ndarray) -> None:
        self._device_known[pages] = False

    def forget_host(self, pages: np.ndarray) -> None:
        self._host_known[pages] = False

    def landed(self, copy: Submitted) -> None:
        """A copy has ended: its target pages hold its tags from now on, unless it failed.

        They go on to do so when they are free, until somebody gets them.
        """
        if copy.fails:
            return
        if copy.direction == "h2d":
            tag, words, known = self._device_tag, self._device_words, self._device_known
            pages = copy.device_pages
        else:
            tag, words, known = self._host_tag, self._host_words, self._host_known
            pages = copy.host_pages
        tag[pages] = np.array(copy.tags, dtype=np.uint64)
        words[pages] = _words(tag[pages])
        known[pages] = True

    def require_device(self, pages: list[int], tags: list[int]) -> None:
        """These device pages are known to hold these tags (``verify`` looks at the bytes)."""
        for page, tag in zip(pages, tags, strict=True):
            assert self._device_known[page], f"device page {page} holds nothing certain"
            assert int(self._device_tag[page]) == tag, f"device page {page} is of another prefix"

    def require_host(self, pages: list[int], tags: list[int]) -> None:
        for page, tag in zip(pages, tags, strict=True):
            assert self._host_known[page], f"host page {page} holds nothing certain"
            assert int(self._host_tag[page]) == tag, f"host page {page} is of another prefix"

    def verify(self) -> None:
        """Compare every byte of every page that must hold something, in both tiers."""
        wrong = (self._device != self._device_words)[self._device_known]
        assert not wrong.any(), f"device pages have wrong bytes: {self._known(wrong, 'device')}"
        wrong = (self._host[self._where] != self._host_words)[self._host_known]
        assert not wrong.any(), f"host pages have wrong bytes: {self._known(wrong, 'host')}"

    def _known(self, wrong: np.ndarray, tier: str) -> np.ndarray:
        known = self._device_known if tier == "device" else self._host_known
        pages: np.ndarray = np.flatnonzero(known)[wrong.any(axis=1)]
        return pages


def _words(tags: np.ndarray) -> np.ndarray:
    """The words of pages with these tags, uint64 [pages, WORDS]."""
    words: np.ndarray = tags[:, None] * _FACTORS + _TERMS
    return words
