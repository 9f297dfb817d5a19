"""How many pages the pools need so that nothing a later run could reuse is evicted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np


@dataclass(frozen=True, slots=True)
class PageDemand:
    """Pages of one pass over all prompts.

    ``cached``: distinct whole pages that end up in the tree, prompts and answers; what the host
    pool has to hold. ``private``: pages that one request in flight has beside them, at most.
    ``reusable``: distinct whole pages that a later run can take from the cache (a prompt's last
    token is always computed). ``largest``: all pages of the largest single request.
    """

    cached: int
    private: int
    reusable: int
    largest: int

    @property
    def device(self) -> int:
        """What the device pool has to hold."""
        return self.cached + self.private


def page_demand(prompts: Sequence[Sequence[int]], page_size: int, new_tokens: int) -> PageDemand:
    """Demand of ``prompts`` (token ids) with up to ``new_tokens`` generated after each.

    The last generated token is never fed to the model, so it has no slot.
    """
    distinct: set[bytes] = set()
    reusable: set[bytes] = set()
    answers = private = largest = 0
    for prompt in prompts:
        identities = page_identities(prompt, page_size)
        distinct.update(identities)
        reusable.update(identities[: (len(prompt) - 1) // page_size])
        slots = len(prompt) + new_tokens - 1
        answers += slots // page_size - len(prompt) // page_size
        pages = -(-slots // page_size)
        private = max(private, pages - (len(prompt) - 1) // page_size)
        largest = max(largest, pages)
    return PageDemand(len(distinct) + answers, private, len(reusable), largest)


def page_identities(tokens: Sequence[int], page_size: int) -> list[bytes]:
    """One 16-byte identity for each whole page: of all tokens up to and including that page."""
    ids = np.asarray(tokens, dtype="<i8")
    identity, identities = b"", []
    for end in range(page_size, len(ids) + 1, page_size):
        page = ids[end - page_size : end].tobytes()
        identity = blake2b(identity + page, digest_size=16).digest()
        identities.append(identity)
    return identities
