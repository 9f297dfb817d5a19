"""Hashes of pages: 128 bits, chained, namespaced, the same in every process and on every machine.

The hash of whole page i is ``BLAKE2b-128(hash of page i-1 || its tokens as little-endian int64)``;
page 0 follows a seed made of the pool's format and the namespace. BLAKE2b is RFC 7693.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hicache_nsa import _core
from hicache_nsa.formats import PoolFormat
from hicache_nsa.tokens import ExtraKey, Tokens, namespace, token_span


def page_hashes(
    tokens: Tokens, format: PoolFormat, *, extra_key: ExtraKey = None
) -> npt.NDArray[np.uint8]:
    """uint8 [whole pages of ``tokens``, 16]: each row names a page and everything before it.

    Equal only for equal tokens up to and including that page, equal ``extra_key`` (types
    included) and equal format. All integer inputs give the same hashes.
    """
    seed = _core.namespace_seed(format.fingerprint.encode(), namespace(extra_key))
    return _core.page_hashes(token_span(tokens), format.page_size, seed)
