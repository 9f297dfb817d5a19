"""Proof that a page which came back holds the bytes that were computed.

Equal outputs prove little: attention reads a set of rows and the rotary positions are inside the
keys, so two swapped pages go almost unnoticed. So the bytes themselves are compared: a digest of
every (page, layer, buffer) is taken when the page has been computed, and again when it is back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
import torch

from hicache_nsa.demo.sizing import page_identities


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A (page, layer, buffer) whose bytes differ from those computed.

    ``first_token``: position of the page in its prompt. ``layer``: index among the layers that own
    the buffer.
    """

    first_token: int
    buffer: str
    layer: int


class PageDigests:
    """Digests by the identity of a page, which is the token prefix that it ends.

    ``buffers``: for each buffer name one uint8 tensor [pages, page_bytes] for each owning layer,
    the memory that the model writes and the cache copies.
    """

    def __init__(self, buffers: Mapping[str, Sequence[torch.Tensor]], page_size: int) -> None:
        self._places = [
            (name, layer, tensor)
            for name, tensors in buffers.items()
            for layer, tensor in enumerate(tensors)
        ]
        self._page_size = page_size
        self._known: dict[bytes, list[bytes]] = {}
        self.pages_compared = 0
        self.mismatches: list[Mismatch] = []

    @property
    def digests_compared(self) -> int:
        """One for each page compared, layer and buffer."""
        return self.pages_compared * len(self._places)

    def record(self, tokens: Sequence[int], pages: npt.NDArray[np.int64], first: int) -> None:
        """Take the digests of whole pages ``first`` and on of ``tokens``.

        ``pages[i]`` holds page i. What is known already stays: a page is compared with its first
        computation.
        """
        for index, identity in enumerate(page_identities(tokens, self._page_size)):
            if index >= first and identity not in self._known:
                self._known[identity] = self._of_page(int(pages[index]))

    def compare(self, tokens: Sequence[int], pages: npt.NDArray[np.int64], first: int) -> None:
        """Compare the whole pages ``first`` and on of ``tokens`` with what was recorded."""
        for index, identity in enumerate(page_identities(tokens, self._page_size)):
            if index < first:
                continue
            self.pages_compared += 1
            known = self._known.get(identity, [])
            for place, digest in enumerate(self._of_page(int(pages[index]))):
                if known[place : place + 1] != [digest]:
                    name, layer, _ = self._places[place]
                    self.mismatches.append(Mismatch(index * self._page_size, name, layer))

    def _of_page(self, page: int) -> list[bytes]:
        """One digest a place. On a GPU the bytes come behind what torch's current stream has
        queued, which writes them or has waited for the load of every layer.
        """
        return [
            blake2b(pool[page].cpu().numpy().data, digest_size=16).digest()
            for _, _, pool in self._places
        ]
