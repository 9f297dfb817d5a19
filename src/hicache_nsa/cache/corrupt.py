"""Host copies that are not what was saved: out of the tree, with all that lies below them.

A load whose bytes differ from the digests taken at the save fails (``verify``). What it read must
not be served again, so the acks take it out here, whoever has it locked: a lock keeps a copy from
being evicted, it does not make a wrong one right. Device copies stay where there are any.
"""

from __future__ import annotations

import numpy as np

from hicache_nsa.cache.copies import Load, disown_below
from hicache_nsa.cache.losses import drop_corrupt_pages
from hicache_nsa.cache.state import CacheState
from hicache_nsa.tokens import NO_PAGES, PageIds, concat_pages
from hicache_nsa.tree import Node


def drop_corrupt(state: CacheState, load: Load, in_order: bool) -> None:
    """Take out what a failed ``load`` found wrong, as far as the tree still has that very page.

    in_order: ranks take in copies together (``acks="poll"``). Which page was wrong is known on one
    of them only, so all of them take out everything that the load read, whatever made it fail.
    """
    if state.engine.verify == "off":
        return
    found = load.ticket.corrupt
    suspects = np.arange(len(load.host_pages)) if in_order else found
    for index in suspects.tolist():
        position = load.start + index * load.page_size
        node = state.tree.surviving(load.node, position + load.page_size)
        if node is None or node.end <= position:
            return  # nothing of the path is left from here on
        page = node.host_pages[(position - node.start) // load.page_size :][:1]
        if np.array_equal(page, load.host_pages[index : index + 1]):
            pages = _take_out(state, node, position)
            _give_up_readers(state, pages, load.host_pages[suspects])
            return


def free_condemned(state: CacheState, load: Load) -> None:
    """``load`` has ended: free what it was the last one to read."""
    state.host.free(load.condemned)
    state.condemned -= len(load.condemned)
    load.condemned = NO_PAGES


def _take_out(state: CacheState, node: Node, position: int) -> PageIds:
    """All host copies from ``position`` of ``node`` on; nodes without a device copy go."""
    tree = state.tree
    if node.start < position:
        tree.split(node, position)
    pages: list[PageIds] = []
    for each in reversed(_with_all_below(node)):  # children first
        pages.append(each.host_pages)
        upper = None
        on_device = tree.device.count(each) * tree.page_size
        if 0 < on_device < each.end - each.start:  # what goes keeps its tokens: see Load.has
            upper = tree.split(each, each.start + on_device)
        tree.set_host(each, None)
        drop_corrupt_pages(state, tree.trim(each))
        if upper is not None:
            tree.set_host(upper, None)
    return concat_pages(pages)


def _with_all_below(node: Node) -> list[Node]:
    nodes = [node]
    for each in nodes:
        nodes.extend(each.children.values())
    return nodes


def _give_up_readers(state: CacheState, pages: PageIds, wrong: PageIds) -> None:
    """Free ``pages``; those that loads in flight read, when the last of these has ended.

    Such a load is disowned: its nodes are gone. One that reads ``wrong`` pages fails, too.
    """
    state.host.withdraw(pages)
    left = pages
    for load in reversed(state.loads):  # the last to end comes first
        if load.tree is not state.tree or not np.isin(load.host_pages, pages).any():
            continue
        load.reads_wrong_pages |= bool(np.isin(load.host_pages, wrong).any())
        if not load.failed:
            load.disown()
            disown_below(state.loads, load)
        last = np.isin(left, load.host_pages)
        load.condemned = np.concatenate([load.condemned, left[last]])
        state.condemned += int(np.count_nonzero(last))
        left = left[~last]
    state.host.free(left)
