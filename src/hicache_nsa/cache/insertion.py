"""``Insertion``: one insert's arguments, checked, on their way through planning and the tree."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hicache_nsa._core import Fence, TokenSpan
from hicache_nsa.tokens import PageIds


@dataclass(frozen=True)
class Insertion:
    """tokens: whole pages of them. pages: a device page for each. fence: the work that writes them,
    None when it is done. priority: of the nodes that the prefix runs through, at least.
    """

    tokens: TokenSpan
    namespace: bytes
    pages: PageIds
    fence: Fence | None
    priority: int

    def kept(self) -> Insertion:
        """The same with tokens and pages of its own, for use after the call."""
        return replace(self, tokens=self.tokens.copy(), pages=self.pages.copy())

    def with_pages(self, pages: PageIds) -> Insertion:
        """The same prefix with other pages."""
        return replace(self, pages=pages)
