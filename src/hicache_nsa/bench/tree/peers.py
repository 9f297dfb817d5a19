"""The trees that can be measured, by name: ours, and those of engines that are installed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib import import_module, metadata

from hicache_nsa.bench.tree.settings import OURS, PEERS
from hicache_nsa.bench.tree.subject import HiCacheSubject, MakeSubject, TreeSubject

INSTALL_SGLANG = (
    "install sglang==0.5.23 with --no-deps and the packages that it imports "
    "(tests/integrations/sglang_linker/requirements.txt; `make bench-tree-sglang` does it all)"
)


def make_subject(name: str) -> MakeSubject:
    """The subject called ``name``: OURS, or one of a peer.

    Raises:
        ValueError: there is none of that name.
    """
    if name == OURS:
        return HiCacheSubject
    known = [tree for trees in PEERS.values() for tree in trees]
    if name not in known:
        raise ValueError(f"no tree is called {name!r}; known: {OURS}, {', '.join(known)}")
    from hicache_nsa.bench.tree.sglang_subject import SglangSubject

    def make(pages: int, host_pages: int) -> TreeSubject:
        assert host_pages == 0
        return SglangSubject(name, pages)

    return make


def require_peers(peers: Sequence[str]) -> dict[str, str]:
    """The versions of ``peers``, imported: so each tree is measured in the same process.

    Raises:
        ValueError: one that is not installed, with what to install.
    """
    versions = {}
    for peer in peers:
        try:
            versions[peer] = metadata.version(peer)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of parts for GPUs
                import_module("hicache_nsa.bench.tree.sglang_subject")
        except (ImportError, metadata.PackageNotFoundError) as error:
            raise ValueError(
                f"--peer {peer}: {peer} can't be used here: {error}. To have it, {INSTALL_SGLANG}"
            ) from error
    return versions
