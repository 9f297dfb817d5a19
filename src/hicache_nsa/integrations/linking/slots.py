"""Token slots of SGLang as page ids: a page is ``page_size`` neighbouring slots, aligned."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hicache_nsa.tokens import PageIds, int64_array


def host_slots(slots: Any) -> npt.NDArray[np.int64]:
    """Slots [tokens] as int64 on the host. A device tensor is copied, behind the current stream."""
    if hasattr(slots, "detach"):
        return int64_array(slots.detach().cpu().numpy(), "device_indices")
    return int64_array(slots, "device_indices")


def page_ids_of(slots: npt.NDArray[np.int64], page_size: int, num_pages: int) -> PageIds:
    """The pages of ``slots``, int64 [tokens / page_size].

    Raises:
        ValueError: no whole pages, a page that isn't aligned or not in order, one outside 1 ..
            num_pages - 1 (page 0 is padding).
    """
    if slots.size % page_size:
        raise ValueError(f"{slots.size} slots are no whole number of pages of {page_size} tokens")
    pages = slots.reshape(-1, page_size)
    first = pages[:, 0]
    wrong = (pages != first[:, None] + np.arange(page_size)).any(axis=1) | (first % page_size != 0)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"slots {at * page_size}..{(at + 1) * page_size - 1} of the transfer are no aligned "
            f"page of {page_size} tokens: they begin at slot {int(first[at])}"
        )
    ids = first // page_size
    if ids.size and not (ids.min() >= 1 and ids.max() < num_pages):
        raise ValueError(
            f"pages {int(ids.min())}..{int(ids.max())} of the transfer: the pool has pages "
            f"1..{num_pages - 1} (0 is padding)"
        )
    return np.ascontiguousarray(ids)
