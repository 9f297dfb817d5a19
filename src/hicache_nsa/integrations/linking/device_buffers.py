"""SGLang's KV pools as a ``PoolFormat`` and the tensors behind it.

Latent rows and MHA keys and values are rows of tokens, page 0 of them padding; an indexer's keys
and scales are one row a page. Widths come from the tensors, never from the model's constants. A
draft model's pool shares the target's slots: its buffers travel in the same record, and land with
the target layer of the same number, before the draft model runs.

Pools are told by their exact class: one that derives from a known one may keep its bytes elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from hicache_nsa.formats import BufferFormat, PoolFormat

ROWS_OF_TOKENS = "token"
ROWS_OF_PAGES = "page"


@dataclass(frozen=True)
class DeviceBuffers:
    """The pages of SGLang's KV pools.

    kind: ``dsa``, ``mla`` or ``mha``. pages: 0 .. pages - 1, page 0 is padding.
    tensors: {buffer name: one tensor per owning layer}, as ``DevicePool`` takes them.
    device: ``cpu`` or ``cuda:N``.
    """

    kind: str
    format: PoolFormat
    tensors: dict[str, list[Any]]
    pages: int
    device: str


@dataclass(frozen=True)
class _Group:
    """The tensors of one buffer: one a layer, empty ones (no rows) are left out."""

    name: str
    rows: str
    tensors: Sequence[Any]


def device_buffers(kvcache: Any, page_size: int, drafts: Sequence[Any] = ()) -> DeviceBuffers:
    """What ``kvcache`` (a target's KV pool) and the ``drafts`` on the same slots consist of.

    Raises:
        ValueError: a pool, a layout or a page size that isn't supported, by name.
    """
    kind, groups = _groups(kvcache, page_size)
    layers = len(groups[0].tensors)
    tensors = [first for group in groups for first in group.tensors[:1]]
    if not tensors:
        raise ValueError(f"{_name(kvcache)} has no layers on this rank")
    for group in groups:
        if not _owned(group):
            raise ValueError(f"{_name(kvcache)}: no layer of this rank owns {group.name!r}")
    device = str(tensors[0].device)
    pages = min(_pages(group, page_size) for group in groups)
    buffers = [_buffer(group, group.name, 0, page_size) for group in groups]
    found = {group.name: _cut(group, pages, page_size) for group in groups}
    depth = 0
    for number, draft in enumerate(drafts):
        draft_groups = _groups(draft, page_size)[1]
        for group in draft_groups:
            name = f"draft{number}_{group.name}"
            if _owned(group) and _pages(group, page_size) < pages:
                raise ValueError(
                    f"draft pool {number} ({_name(draft)}) has {_pages(group, page_size)} pages of "
                    f"{group.name!r}, the target's pool {pages}: they don't share slots"
                )
            buffers.append(_buffer(group, name, depth, page_size))
            found[name] = _cut(group, pages, page_size)
        depth += len(draft_groups[0].tensors)
        if depth > layers:
            raise ValueError(
                f"the draft model has {depth} layers or more, the target {layers} on this rank: "
                "each draft layer travels with a target layer"
            )
    kept = [buffer for buffer in buffers if buffer.layers]
    format = PoolFormat(f"sglang/{kind}", page_size, layers, tuple(kept))
    return DeviceBuffers(
        kind, format, {b.name: found[b.name] for b in kept}, pages, _with_index(device, tensors[0])
    )


def _groups(pool: Any, page_size: int) -> tuple[str, list[_Group]]:
    """The kind of ``pool`` and its buffers."""
    kind = next((kind for kind, (name, _) in KINDS.items() if name == _name(pool)), None)
    if kind is None:
        raise ValueError(
            f"KV pool {_name(pool)} is not supported; supported: "
            + ", ".join(f"{name} ({kind})" for kind, (name, _) in KINDS.items())
        )
    if pool.page_size != page_size:
        raise ValueError(
            f"{_name(pool)} has pages of {pool.page_size} tokens, the radix cache of {page_size}"
        )
    for attribute, what in REFUSED.items():
        value = getattr(pool, attribute, None)
        if value is not None and value is not False:
            raise ValueError(f"{_name(pool)} with {what} ({attribute}) is not supported")
    return kind, KINDS[kind][1](pool)


def _dsa(pool: Any) -> list[_Group]:
    index = list(pool.index_k_with_scale_buffer)
    latent = list(pool.kv_buffer)
    if len(index) != len(latent):
        raise ValueError(
            f"{_name(pool)} has {len(latent)} latent and {len(index)} indexer buffers; one a layer "
            "of each is expected (0 rows where a layer shares another one's top-k)"
        )
    return [_Group("latent", ROWS_OF_TOKENS, latent), _Group("index_k", ROWS_OF_PAGES, index)]


def _mla(pool: Any) -> list[_Group]:
    return [_Group("latent", ROWS_OF_TOKENS, list(pool.kv_buffer))]


def _mha(pool: Any) -> list[_Group]:
    layout = getattr(pool, "kv_cache_layout", "nhd")
    if layout != "nhd":
        raise ValueError(f"{_name(pool)} in layout {layout!r} is not supported; supported: 'nhd'")
    return [
        _Group("k", ROWS_OF_TOKENS, list(pool.k_buffer)),
        _Group("v", ROWS_OF_TOKENS, list(pool.v_buffer)),
    ]


# kind: the class of SGLang, and what reads its buffers.
KINDS: dict[str, tuple[str, Callable[[Any], list[_Group]]]] = {
    "dsa": ("DSATokenToKVPool", _dsa),
    "mla": ("MLATokenToKVPool", _mla),
    "mha": ("MHATokenToKVPool", _mha),
}

# Attributes that, if set, mean bytes or page ids of which this description knows nothing.
REFUSED = {
    "layer_shard_enabled": "layers shared out among ranks",
    "dcp_replicated": "decode context parallelism",
    "kpool_use_compress": "pooled index keys that keep a tail a request",
    "k_scale_buffer": "scales of a quantized cache",
    "native_k_scale_buffer": "scales of a quantized cache",
    "kv_scale_buffer": "scales of a quantized cache",
    "host_transfer_translate": "pages that move",
    "post_capture_active": "memory that is mapped after the capture of CUDA graphs",
}


def _owned(group: _Group) -> list[int]:
    """The positions of the layers that own rows of this buffer."""
    return [i for i, tensor in enumerate(group.tensors) if tensor.shape[0]]


def _pages(group: _Group, page_size: int) -> int:
    """Whole pages that every layer of the buffer has."""
    rows = min(group.tensors[i].shape[0] for i in _owned(group))
    return int(rows) // page_size if group.rows == ROWS_OF_TOKENS else int(rows)


def _buffer(group: _Group, name: str, first_layer: int, page_size: int) -> BufferFormat:
    owned = _owned(group)
    widths = {prod(group.tensors[i].shape[1:]) * group.tensors[i].element_size() for i in owned}
    if len(widths) > 1:
        raise ValueError(f"{name!r}: rows of {sorted(widths)} bytes in one pool")
    row = widths.pop() if widths else 1
    dtypes = {str(group.tensors[i].dtype).removeprefix("torch.") for i in owned}
    return BufferFormat(
        name,
        row * page_size if group.rows == ROWS_OF_TOKENS else row,
        tuple(first_layer + i for i in owned),
        tuple(sorted(dtypes)),
    )


def _cut(group: _Group, pages: int, page_size: int) -> list[Any]:
    """The tensors of the owning layers, cut to ``pages`` whole pages."""
    rows = pages * page_size if group.rows == ROWS_OF_TOKENS else pages
    return [group.tensors[i][:rows] for i in _owned(group)]


def _with_index(device: str, tensor: Any) -> str:
    return f"cuda:{tensor.get_device()}" if device == "cuda" else device


def _name(pool: Any) -> str:
    return type(pool).__name__
