"""How to get what a part of the package needs beyond the package itself."""

from __future__ import annotations


def install_extra(extra: str) -> str:
    """The next step in a message: an extra of pyproject.toml, beside the package that is there."""
    return f"run pip install 'hicache-nsa[{extra}]'"
