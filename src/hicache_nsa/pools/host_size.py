"""How many pages a host pool has, and how many bytes that takes."""

from __future__ import annotations

from collections.abc import Callable

from hicache_nsa import _core
from hicache_nsa.formats import PoolFormat
from hicache_nsa.pools.host_file import block_bytes
from hicache_nsa.pools.pool import MAX_PAGES, native_format, page_count
from hicache_nsa.sizes import parse_size


def bytes_of_pages(format: PoolFormat, layout: str, path: str | None) -> Callable[[int], int]:
    """Bytes that a pool of so many pages takes, in a file at ``path`` all of that file."""
    if path is None:
        return lambda pages: pages * format.page_bytes
    block = block_bytes(path)
    native = native_format(format)
    return lambda pages: _core.host_file_bytes(_core.HostLayout(native, layout, pages), block)


def pages_that_fit(nbytes: int, most: int, size_of: Callable[[int], int]) -> int:
    """As many of ``most`` pages as ``nbytes`` hold, by ``bytes_of_pages``."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size_of(middle) <= nbytes else (low, middle - 1)
    return low


def host_page_count(
    format: PoolFormat, layout: str, pages: int | None, size: int | str | None, path: str | None
) -> int:
    """Pages of a host pool: ``pages``, or as many as ``size`` holds.

    Raises:
        ValueError: not exactly one of them, less than a page, more than a pool can have, no pages
            for a file.
    """
    if (pages is None) == (size is None):
        raise ValueError(
            f"give exactly one of host_pages and host_size, got host_pages={pages!r}, "
            f"host_size={size!r}"
        )
    if pages is not None:
        count = page_count(pages, "host_pages")
        if count == 0 and path is not None:
            raise ValueError(f"host_file={path!r} needs a host tier, got host_pages=0")
        return count
    nbytes = parse_size(size if size is not None else 0, "host_size")
    if nbytes // format.page_bytes > MAX_PAGES:
        raise ValueError(
            f"host_size={size!r} is {nbytes // format.page_bytes} pages of {format.page_bytes} "
            f"bytes; the largest pool has {MAX_PAGES}"
        )
    size_of = bytes_of_pages(format, layout, path)
    count = pages_that_fit(nbytes, nbytes // format.page_bytes, size_of)
    if count == 0:
        where = "" if path is None else "a host file with "
        raise ValueError(
            f"host_size={size!r} is {nbytes} bytes, {where}one page of {format.name!r} takes "
            f"{size_of(1)}; give at least that, or host_pages=0 for no host tier"
        )
    return count
