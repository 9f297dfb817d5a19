"""Who is told of every page that comes into a tier or leaves it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from hicache_nsa.tree.node import Node
    from hicache_nsa.tree.tier import Tier


class Watcher(Protocol):
    """Told after each change. A split changes no page, and neither do locks and copies in flight.

    At every moment what it was told of a tier is closed to the front: parents come before what lies
    below them, and go after it.
    """

    def changed(self, tier: Tier, node: Node, old: int, new: int) -> None:
        """``node`` had ``old`` leading pages in ``tier`` and has ``new`` now; may be equal."""

    def removed(self, tier: Tier, packed_keys: bytes) -> None:
        """These pages left ``tier``, the last ones of a node first (a flush)."""

    def cleared(self) -> None:
        """No tier has any page now."""
