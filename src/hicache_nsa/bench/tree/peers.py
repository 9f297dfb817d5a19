"""The trees that can be measured, by name: ours, and those of engines that are installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hicache_nsa.bench.tree.settings import OURS
from hicache_nsa.bench.tree.subject import HiCacheSubject, MakeSubject


def make_subject(name: str) -> MakeSubject:
    """The subject called ``name``: OURS, or one of a peer."""
    assert name == OURS
    return HiCacheSubject


def require_peers(peers: Sequence[str]) -> Mapping[str, str]:
    """The versions of ``peers``."""
    return {}
