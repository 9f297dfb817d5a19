"""Ways to break the host file, each of which the kills must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hicache_nsa._core import TokenSpan
from hicache_nsa.cache import acks, saving
from hicache_nsa.pools import HostPool
from hicache_nsa.tokens import concat_pages


def no_withdraw() -> None:
    """Evicted pages stay in the page table."""
    HostPool.free = HostPool.__mro__[1].free


def no_publish() -> None:
    """Saved pages never come into it."""
    acks.publish = lambda *_: None


def no_renounce() -> None:
    """``invalidate`` and ``clear`` do not change the generation, nor what is freed after them."""
    HostPool.renounce = lambda _: None
    no_withdraw()


def publish_at_once() -> None:
    """A save is published when it starts, not when it has ended."""
    start, late = saving.start_save, acks.publish

    def start_and_publish(state: Any, node: Any) -> Any:
        save = start(state, node)
        if save is not None:
            path = save.node.path()
            ahead = concat_pages(above.host_pages for above in path)[: save.start // save.page_size]
            if len(ahead) * save.page_size == save.start:
                tokens = TokenSpan(concat_pages(above.key.numpy() for above in path))
                part = tokens.slice(save.start, save.end)
                before = int(ahead[-1]) if len(ahead) else None
                state.host.publish(save.host_pages, before, path[0].parent.namespace, part, 0)
        return save

    def publish_later(state: Any, node: Any, count: int) -> None:
        if not np.isin(node.host_pages[-count:], state.host.published()).any():
            late(state, node, count)

    saving.save_due.__globals__["start_save"] = start_and_publish
    acks.publish = publish_later


MUTANTS: dict[str, Callable[[], None]] = {
    "no-withdraw": no_withdraw,
    "no-publish": no_publish,
    "no-renounce": no_renounce,
    "publish-at-once": publish_at_once,
}
