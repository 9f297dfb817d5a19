"""``PoolFormat``: the frozen description that pools, copies, hashes and models share."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from hicache_nsa.formats.checks import MAX_LAYERS, positive_int


@dataclass(frozen=True)
class BufferFormat:
    """One named per-layer array of a pool.

    name: what the engine calls it (``latent``, ``index_k``, ``k``, ``v`` or a companion's name).
    page_bytes: bytes of one page in *one* layer.
    layers: ids of the layers that own this buffer, ascending.
    dtypes: element types a device tensor of this buffer may have; byte types always fit.
    """

    name: str
    page_bytes: int
    layers: tuple[int, ...]
    dtypes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise ValueError(f"a buffer needs a name, got {self.name!r}")
        object.__setattr__(
            self, "page_bytes", positive_int(self.page_bytes, f"page_bytes of {self.name!r}")
        )
        object.__setattr__(self, "layers", _layer_ids(self.layers, self.name))
        object.__setattr__(self, "dtypes", tuple(self.dtypes))


@dataclass(frozen=True)
class PoolFormat:
    """Buffers of one page over all layers. A *record* is all of a page's bytes.

    name: a readable name such as ``dsa/fp8_ds_mla``.
    page_size: tokens (slots) a page.
    num_layers: layer ids are ``0 .. num_layers - 1``.
    buffers: in the order in which a layer's bytes lie side by side in a host record.
    """

    name: str
    page_size: int
    num_layers: int
    buffers: tuple[BufferFormat, ...]

    def __post_init__(self) -> None:
        positive_int(self.page_size, "page_size")
        positive_int(self.num_layers, "num_layers")
        buffers = tuple(self.buffers)
        names = [buffer.name for buffer in buffers]
        if not buffers:
            raise ValueError("a format needs at least one buffer")
        if len(set(names)) != len(names):
            raise ValueError(f"buffer names must be different, got {names}")
        for buffer in buffers:
            if buffer.layers and buffer.layers[-1] >= self.num_layers:
                raise ValueError(
                    f"buffer {buffer.name!r} names layer {buffer.layers[-1]}, "
                    f"the format has layers 0..{self.num_layers - 1}"
                )
        object.__setattr__(self, "buffers", buffers)

    @cached_property
    def page_bytes(self) -> int:
        """Bytes of one record: every layer and buffer of one page."""
        return sum(buffer.page_bytes * len(buffer.layers) for buffer in self.buffers)

    @property
    def token_bytes(self) -> int | float:
        """Bytes a token, over all layers and buffers (a float only where it isn't whole)."""
        whole, rest = divmod(self.page_bytes, self.page_size)
        return self.page_bytes / self.page_size if rest else whole

    @cached_property
    def fingerprint(self) -> str:
        """Everything that decides what a page's bytes mean; part of every page hash."""
        buffers = ";".join(
            f"{b.name}:{b.page_bytes}:{','.join(map(str, b.layers))}" for b in self.buffers
        )
        return f"{self.name}|page_size={self.page_size}|layers={self.num_layers}|{buffers}"

    def buffer(self, name: str) -> BufferFormat:
        """The buffer called ``name``; ``ValueError`` lists the known ones."""
        for buffer in self.buffers:
            if buffer.name == name:
                return buffer
        known = [buffer.name for buffer in self.buffers]
        raise ValueError(f"no buffer {name!r} in format {self.name!r}; it has {known}")

    def extended(self, *companions: BufferFormat) -> PoolFormat:
        """This format plus a companion's buffers (draft or MTP layers).

        Companions live in the same pages and records and travel with the same ack. Their layer
        ids may go on behind this format's (an MTP layer 61 behind layers 0..60).
        """
        if not companions:
            raise ValueError("extended() needs at least one BufferFormat")
        for companion in companions:
            if not isinstance(companion, BufferFormat):
                raise TypeError(f"expected BufferFormat, got {type(companion).__name__}")
        layers = max((c.layers[-1] + 1 for c in companions if c.layers), default=0)
        return replace(
            self,
            name="+".join([self.name, *(c.name for c in companions)]),
            num_layers=max(self.num_layers, layers),
            buffers=(*self.buffers, *companions),
        )


def _layer_ids(layers: Iterable[int], name: str) -> tuple[int, ...]:
    given = tuple(layers)
    if any(isinstance(layer, bool) or not hasattr(layer, "__index__") for layer in given):
        raise TypeError(f"layers of {name!r} must be ints, got {given!r}")
    ids = tuple(operator.index(layer) for layer in given)
    for layer in ids:
        if not 0 <= layer < MAX_LAYERS:
            raise ValueError(f"layers of {name!r}: {layer} is outside 0..{MAX_LAYERS - 1}")
    if any(a >= b for a, b in pairwise(ids)):
        raise ValueError(f"layers of {name!r} must ascend without repeats, got {ids}")
    return ids
