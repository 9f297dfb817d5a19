"""Tokens, page ids and namespaces as callers hand them in, checked and in one form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from hicache_nsa._core import TokenSpan

PageIds: TypeAlias = npt.NDArray[np.int64]
PageKeys: TypeAlias = npt.NDArray[np.uint64]
Tokens: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]] | Any
ExtraKey: TypeAlias = "str | bytes | int | tuple[ExtraKey, ...] | None"

INT64 = np.dtype(np.int64)
UINT64 = np.dtype(np.uint64)
PACKED_PAGE = INT64.itemsize
"""Bytes of a page id in ``pack_pages``."""
PACKED_KEY = UINT64.itemsize
"""Bytes of a page key in ``Node.packed_keys``."""
SHORT_NAMESPACE = 63
NO_PAGES: PageIds = np.empty(0, dtype=np.int64)
NO_PAGES.setflags(write=False)


def token_span(tokens: Tokens) -> TokenSpan:
    """A 1-D sequence of ints (list, array, numpy, torch) as a span of int64 token ids.

    An int64 array is viewed, not copied: don't write to it during the call.

    Raises:
        TypeError: values that are no integers (floats, bools, strings).
        ValueError: not one-dimensional, or an id beyond int64.
    """
    if type(tokens) is np.ndarray:
        try:
            return TokenSpan(cast(PageIds, tokens))  # takes nothing but contiguous int64
        except TypeError:
            return TokenSpan(int64_array(tokens, "tokens"))
    return TokenSpan(int64_array(tokens, "tokens"))


def page_ids(pages: Any, total: int, name: str = "pages") -> PageIds:
    """Page ids as a 1-D int64 array with every id in 0..total-1."""
    array = int64_array(pages, name)
    if array.size and int(array.view(UINT64).max()) >= total:  # a negative id is a large one there
        low, high = int(array.min()), int(array.max())
        bad = low if low < 0 else high
        raise ValueError(f"{name}: page id {bad} is outside the pool's 0..{total - 1}")
    return array


def concat_pages(parts: Iterable[PageIds]) -> PageIds:
    """One fresh array of all ``parts``; empty without any."""
    return np.concatenate([NO_PAGES, *parts])


def pack_pages(pages: PageIds) -> bytes:
    """Page ids as bytes: the smallest form that they can be kept in."""
    return np.ascontiguousarray(pages, dtype=INT64).tobytes()


def unpack_pages(packed: bytes) -> PageIds:
    """The array of what ``pack_pages`` packed, at least one id; read-only, not a copy."""
    return np.frombuffer(packed, dtype=INT64)


def join_pages(parts: Iterable[bytes | None], most: int | None = None) -> PageIds:
    """One fresh array of the ids of packed parts, the first ``most`` of them; None: no ids."""
    joined = bytearray().join([part for part in parts if part is not None])
    return np.frombuffer(joined, dtype=INT64)[:most] if joined else NO_PAGES


def count_pages(parts: Iterable[bytes | None]) -> int:
    """How many ids the packed parts hold."""
    return sum([len(part) for part in parts if part is not None]) // PACKED_PAGE


def int64_array(values: Any, name: str) -> npt.NDArray[np.int64]:
    """``values`` as a contiguous 1-D int64 array; no copy where it already is one."""
    if (
        type(values) is np.ndarray
        and values.dtype == INT64
        and values.ndim == 1
        and values.flags.c_contiguous
    ):
        return values
    if isinstance(values, np.ndarray) and values.dtype != object:
        array = values
    elif isinstance(values, (str, bytes, bytearray, dict, set)):
        raise TypeError(f"{name} must be a 1-D sequence of ints, got {type(values).__name__}")
    elif hasattr(values, "detach") and hasattr(values, "numpy"):
        try:
            array = values.detach().cpu().numpy()
        except (RuntimeError, TypeError) as error:  # a meta or sparse tensor, bfloat16
            raise TypeError(f"{name} must be a 1-D sequence of ints: {error}") from error
    else:
        array = _from_sequence(values, name)
    if array.ndim != 1:
        raise ValueError(f"{name} must be 1-D, got shape {array.shape}")
    if array.dtype == np.int64 and array.flags.c_contiguous:
        return array
    if array.size == 0 and not isinstance(values, np.ndarray):
        return NO_PAGES  # numpy makes floats of an empty list
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got dtype {array.dtype}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise ValueError(f"{name}: {int(array.max())} does not fit in int64")
    return np.ascontiguousarray(array, dtype=np.int64)


def _from_sequence(values: Any, name: str) -> npt.NDArray[Any]:
    try:
        array = np.asarray(values)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a 1-D sequence of ints: {error}") from error
    if array.dtype == object:
        if not all(
            isinstance(v, (int, np.integer)) and v is not True and v is not False
            for v in array.flat
        ):
            raise TypeError(f"{name} must be integers, got mixed objects")
        try:
            array = array.astype(np.int64)
        except OverflowError:
            raise ValueError(f"{name}: an id does not fit in int64") from None
    if (
        array.ndim == 1
        and array.dtype.kind in "iu"
        and any(value is True or value is False for value in values)
    ):
        raise TypeError(f"{name} must be integers, got a bool")  # numpy reads [1, True] as ints
    return array


def namespace(extra_key: ExtraKey) -> bytes:
    """An unambiguous encoding of ``extra_key``: equal bytes mean equal keys, types included.

    Strings, bytes, ints and nested tuples of them are tagged and length-prefixed, so that
    ("ab", "c"), ("a", "bc") and "abc" stay apart. None is the empty namespace.
    """
    if extra_key is None:
        return b""
    if isinstance(extra_key, str):
        return _tagged(b"s", extra_key.encode("utf-8", "surrogatepass"))
    if isinstance(extra_key, (bytes, bytearray)):
        return _tagged(b"b", bytes(extra_key))
    if isinstance(extra_key, (int, np.integer)) and not isinstance(extra_key, bool):
        return _tagged(b"i", str(int(extra_key)).encode())
    if isinstance(extra_key, tuple):
        parts = [namespace(part) if part is not None else _tagged(b"n", b"") for part in extra_key]
        return _tagged(b"t", b"".join(parts))
    raise TypeError(
        f"extra_key must be a str, bytes, int or a tuple of those, got {type(extra_key).__name__}"
    )


def short_namespace(extra_key: ExtraKey) -> bytes:
    """``namespace`` in at most 63 bytes: a longer one stands as its BLAKE2b-256, under a tag of
    its own. What the tree keeps of a key, so that it fits into an entry of a host file.
    """
    whole = namespace(extra_key)
    if len(whole) <= SHORT_NAMESPACE:
        return whole
    return b"h" + blake2b(whole, digest_size=32).digest()


def _tagged(tag: bytes, payload: bytes) -> bytes:
    return tag + len(payload).to_bytes(8, "little") + payload
