"""Refuses device buffers that share bytes: two layers in one place would overwrite each other."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_nsa.tensors import PageView


def refuse_overlaps(views: Sequence[PageView]) -> None:
    """``ValueError`` that names both tensors if two views share a byte.

    Interleaved views of one packed tensor ([page, layer, row]) are fine: they have the same page
    stride, and each one's span fits into the gaps of the other.
    """
    placed = sorted((v for v in views if v.num_pages), key=lambda view: view.info.address)
    for i, first in enumerate(placed):
        end = first.info.address + (first.num_pages - 1) * first.page_stride + first.span
        for second in placed[i + 1 :]:
            if second.info.address >= end:
                break
            if not _interleaved(first, second):
                raise ValueError(f"{first.info} and {second.info} share memory")


def _interleaved(first: PageView, second: PageView) -> bool:
    delta = second.info.address - first.info.address
    stride = first.page_stride
    if stride <= 0 or stride != second.page_stride:
        return False
    shift = delta % stride
    if shift >= first.span and stride - shift >= second.span:
        return True
    return _rows_interleaved(first, second, delta)


def _rows_interleaved(first: PageView, second: PageView, delta: int) -> bool:
    """Rows side by side, as in [page, token, layer, row] or [token, layer, page, row]."""
    stride = first.row_stride
    if first.rows != second.rows or first.rows == 1 or stride != second.row_stride:
        return False
    if first.page_stride >= first.span and first.page_stride % stride:
        return False  # rows of different pages meet at other distances
    shift = delta % stride
    return shift >= _row_width(first) and stride - shift >= _row_width(second)


def _row_width(view: PageView) -> int:
    """Bytes from one row's first byte to behind its last, in all pages that share the row."""
    if view.page_stride >= view.span:
        return view.row_bytes
    return (view.num_pages - 1) * view.page_stride + view.row_bytes
