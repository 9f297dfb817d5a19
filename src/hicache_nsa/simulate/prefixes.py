"""The prompts of a trace as one tree of prefixes, once all of them are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hicache_nsa.tokens import token_span
from hicache_nsa.traces import Request
from hicache_nsa.tree import RadixTree


@dataclass(frozen=True)
class PrefixRuns:
    """Runs of pages that always occur together: a request has all pages of a run, or none.

    lengths: pages of each run. paths: for each request its runs, from the first page on.
    """

    lengths: Sequence[int]
    paths: Sequence[Sequence[int]]

    @property
    def pages(self) -> int:
        """Distinct pages of the whole trace: what a tier needs to hold everything."""
        return sum(self.lengths)


def prefix_runs(requests: Sequence[Request]) -> PrefixRuns:
    """The tree of all ``requests``; a page counts together with all that comes before it."""
    tree = RadixTree(1)
    spans = [token_span(request.pages) for request in requests]
    for span in spans:
        path, end = tree.find(span)
        node = tree.cut(path[-1], end) if path else None
        if end < len(span):
            tree.add(node or tree.root(b""), span.slice(end, len(span)))
    numbers: dict[object, int] = {}
    lengths: list[int] = []
    paths: list[list[int]] = []
    for span in spans:
        path, _ = tree.find(span)
        for node in path:
            if node not in numbers:
                numbers[node] = len(lengths)
                lengths.append(node.end - node.start)
        paths.append([numbers[node] for node in path])
    return PrefixRuns(lengths, paths)
