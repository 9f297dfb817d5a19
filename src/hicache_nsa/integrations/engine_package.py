"""Is the engine there, in a version that an adapter was written for?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib import metadata

from hicache_nsa.extras import install_extra

_MAJOR_MINOR = re.compile(r"(\d+)\.(\d+)")


def require_engine(
    engine: str, distributions: Sequence[str], supported: Sequence[str], extra: str
) -> str:
    """The version of ``engine`` that is installed.

    distributions: names it may be installed under, the first one found counts.
    supported: ``"0.32"`` means every 0.32.x.

    Raises:
        ImportError: none is installed, or in another version; the message names the extra and what
            is supported.
    """
    versions = ", ".join(f"{version}.x" for version in supported)
    for name in distributions:
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
        if major_minor(found) in supported:
            return found
        raise ImportError(
            f"{engine} {found} is not supported by this version of hicache-nsa; supported: "
            f"{versions}. Install one of them, or a hicache-nsa that knows {engine} {found}"
        )
    raise ImportError(
        f"{engine} is not installed ({' or '.join(distributions)}); supported: {versions}. "
        f"To have it, {install_extra(extra)}"
    )


def major_minor(version: str) -> str:
    """``"0.32.1.dev3+cpu"`` as ``"0.32"``; ``""`` if it doesn't start with two numbers."""
    match = _MAJOR_MINOR.match(version)
    return "" if match is None else f"{int(match[1])}.{int(match[2])}"
