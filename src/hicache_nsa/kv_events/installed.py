"""Is there what publishing needs?"""

from __future__ import annotations

from importlib.util import find_spec

from hicache_nsa.extras import install_extra

PACKAGES = {"msgspec": "msgspec", "zmq": "pyzmq"}
"""Modules, and the packages that have them."""


def require_installed() -> None:
    """Raise ``ImportError`` that names what is missing and the extra that has it."""
    missing = [package for module, package in PACKAGES.items() if find_spec(module) is None]
    if missing:
        raise ImportError(
            f"publishing KV events needs {' and '.join(missing)}: {install_extra('events')}"
        )
