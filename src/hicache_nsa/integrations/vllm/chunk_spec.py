"""What the scheduler tells the workers: which chunks of the host tier."""

from __future__ import annotations

from dataclasses import dataclass

from vllm.v1.kv_offload.base import LoadStoreSpec

from hicache_nsa.tokens import PageIds


@dataclass
class HostChunkSpec(LoadStoreSpec):
    """Chunks of the host tier, int64, in the order of the keys. Pickled from process to process."""

    chunks: PageIds
