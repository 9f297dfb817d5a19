"""Link curves made by hand: they decide which way ``auto`` takes and how layers are grouped."""

from __future__ import annotations

from hicache_nsa import _core

Points = list[tuple[int, float]]


def curve(piece: Points, kernel: Points) -> _core.LinkCurve:
    """The same for both directions; no rectangle is worth it."""
    costs = {"piece": piece, "rectangle": [(1, 1e-3), (2, 1e-3)], "kernel": kernel}
    return _core.LinkCurve({"h2d": costs, "d2h": costs})


_SLOW_KERNEL = [(1, 1.0), (2, 2.0)]
# For staged copies. A piece costs the same whatever its size: many layers a group. Or by its bytes
# alone: few. Or both.
GROUPS = {
    "by piece": curve([(1, 1e-3), (2, 1e-3)], _SLOW_KERNEL),
    "by byte": curve([(1, 1e-6), (1_000_001, 1.0)], _SLOW_KERNEL),
    "by both": curve([(1, 1e-3), (10_001, 4e-3)], _SLOW_KERNEL),
}

# For auto, with pages of 16 * (656 + 36) bytes and less in each of four layers, scattered and
# awaited layer by layer: a kernel moves one page, a copy engine two, the ring of a MiB 200.
TURNS = curve([(1, 3e-6), (2, 3e-6)], [(11_072, 1e-6), (11_328, 1e-3)])
TURN_PAGES = {"kernel": 1, "direct": 2, "staged": 200}
TURN_RING = 1 << 20
