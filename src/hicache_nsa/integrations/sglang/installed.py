"""Which SGLang is installed, and whether it is one that this adapter can work with."""

from __future__ import annotations

import logging
import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from hicache_nsa.extras import install_extra

TESTED = ("0.5.23",)
OLDEST = (0, 5, 23)
SUPPORTED = (
    f"sglang {'.'.join(map(str, OLDEST))} or newer (tested with {', '.join(TESTED)}); "
    f"{install_extra('sglang')}"
)

log = logging.getLogger("hicache_nsa.sglang")


def require_sglang() -> None:
    """ImportError unless there is an SGLang with external linkers; its version needs no import."""
    if find_spec("sglang") is None:
        raise ImportError(f"hicache_nsa.integrations.sglang needs SGLang: {SUPPORTED}")
    found = installed_version()
    if found is not None and release(found) < OLDEST:
        raise ImportError(
            f"sglang {found} has no external linkers for its unified radix cache; supported: "
            f"{SUPPORTED}"
        )


def without_linkers(error: ImportError) -> ImportError:
    """What to raise where this SGLang lacks something that the linker imports of it."""
    if not (error.name or "").startswith("sglang"):
        return error
    return ImportError(
        f"sglang {installed_version() or 'of unknown version'} has no external linkers as this "
        f"adapter knows them ({error}); supported: {SUPPORTED}"
    )


def warn_untested() -> None:
    """Say so once at start if this version of SGLang is one that nobody has tested."""
    found = installed_version()
    if found not in TESTED:
        log.warning(
            "sglang %s is not among the versions this linker was tested with (%s); its interface "
            "for linkers is young and may have changed",
            found or "of unknown version",
            ", ".join(TESTED),
        )


def installed_version() -> str | None:
    """The version by the package's metadata; None for a source tree that is on the path."""
    try:
        return version("sglang")
    except PackageNotFoundError:
        return None


def release(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: ``0.5.23.post1`` is (0, 5, 23)."""
    match = re.match(r"\d+(\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()
