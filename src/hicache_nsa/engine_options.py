"""The options of a ``TransferEngine`` beside pools and way, which ``HiCache`` takes too."""

from __future__ import annotations

from typing import Any

from hicache_nsa import _core
from hicache_nsa.formats.checks import count_of, one_of
from hicache_nsa.sizes import parse_size

# name: the largest value; sizes in bytes may be strings ("32MiB").
COUNTS = {"workers": 1024, "kernel_blocks": 65_535}
SIZES = {"pin_chunk_bytes": 2**63 - 1, "staging_bytes": 2**63 - 1}
CHOICES = {"verify": ("off", "sample", "all")}
SWITCHES = ("time_waits",)
PLAIN_OPTIONS = (*COUNTS, *SIZES, *CHOICES, *SWITCHES)  # those that a configuration file can hold
ENGINE_OPTIONS = (*PLAIN_OPTIONS, "link_curve")


def check_engine_options(options: dict[str, Any], whose: str) -> dict[str, Any]:
    """The options in the form that the C++ core takes.

    Raises:
        TypeError, ValueError: an unknown name (``whose`` has it), or a value that doesn't fit.
    """
    return {name: _checked(name, value, whose) for name, value in options.items()}


def _checked(name: str, value: Any, whose: str) -> Any:
    if name in COUNTS:
        return count_of(value, name, most=COUNTS[name])
    if name in SIZES:
        size = parse_size(value, name)
        if size > SIZES[name]:
            raise ValueError(f"{name}={size} is more than {SIZES[name]}")
        return size
    if name in CHOICES:
        return one_of(value, name, CHOICES[name])
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise TypeError(f"{name} must be True or False, got {value!r}")
        return value
    if name != "link_curve":
        raise TypeError(
            f"{whose} got an unexpected keyword argument {name!r}; those of its transfer engine "
            f"are {', '.join(ENGINE_OPTIONS)}"
        )
    if value is not None and not isinstance(value, _core.LinkCurve):
        raise TypeError(f"link_curve must be a LinkCurve or None, got {type(value).__name__}")
    return value
