"""What of a path has to be saved: the device pages behind the last one saved or being saved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hicache_nsa.tokens import PageIds, concat_pages
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
    saved = True
    pages: list[PageIds] = []
    for node in path:
        covered = node.start + len(node.host_pages) * page_size if saved else node.start
        if saved and node.save is not None:
            covered = max(covered, min(node.save.end, node.end))
        if saved:
            start = covered
            saved = covered == node.end
        pages.append(node.device_pages[(covered - node.start) // page_size :])
        if len(node.device_pages) * page_size < node.end - node.start:
            break
    return SavePlan(start, concat_pages(pages))
