"""How many device pages a ``PrefixCache`` gets."""

from __future__ import annotations

from typing import Any

from hicache_nsa.formats import PoolFormat
from hicache_nsa.formats.checks import positive_int
from hicache_nsa.sizes import parse_size

DEFAULT_TOKENS = 8192


def device_page_count(
    format: PoolFormat,
    host_pages: int,
    context: Any,
    device_pages: int | None,
    device_size: int | str | None,
) -> int:
    """``device_pages``, or as many as ``device_size`` bytes hold; by default room for a prompt of
    the model's ``context`` tokens, at most DEFAULT_TOKENS, and no more pages than the host has.

    Raises:
        ValueError, TypeError: both are given, or not one page fits.
    """
    if device_pages is not None and device_size is not None:
        raise ValueError(
            f"give one of device_pages and device_size, got device_pages={device_pages!r} and "
            f"device_size={device_size!r}"
        )
    if device_pages is not None:
        return positive_int(device_pages, "device_pages")
    if device_size is not None:
        nbytes = parse_size(device_size, "device_size")
        if nbytes < format.page_bytes:
            raise ValueError(
                f"device_size={device_size!r} is {nbytes} bytes, a page of {format.page_size} "
                f"tokens takes {format.page_bytes}; give at least that"
            )
        return nbytes // format.page_bytes
    known = isinstance(context, int) and context > 0
    tokens = min(context, DEFAULT_TOKENS) if known else DEFAULT_TOKENS
    pages = -(-tokens // format.page_size)
    return min(pages, host_pages) if host_pages else pages
