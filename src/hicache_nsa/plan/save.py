"""What of a path has to be saved: the device pages behind the last one saved or being saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hicache_nsa.tokens import PageIds, count_pages, join_pages
from hicache_nsa.tree.node import Node


class SavePlan(NamedTuple):
    """Device pages at positions ``start ..`` of the prefix, parents first."""

    start: int
    device_pages: PageIds


def plan_save(path: Sequence[Node], page_size: int) -> SavePlan:
    """The unsaved tail of ``path`` that is on the device.

    Saves start at the top and host copies leave from the bottom, so what is saved or being saved
    is always an unbroken prefix and the rest is one run. It ends at the first page that has not
    landed on the device.
    """
    start = 0
    for node in path:
        packed = node.packed_host_value
        start = node.start + (0 if packed is None else count_pages((packed,)) * page_size)
        if node.save is not None:
            start = max(start, min(node.save.end, node.end))
        if start < node.end:
            break
    device = join_pages([node.packed_value for node in path])
    return SavePlan(start, device[start // page_size :])
