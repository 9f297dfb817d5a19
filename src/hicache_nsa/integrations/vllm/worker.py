"""A worker's side: its share of the host pool, and the copies."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from vllm.v1.kv_offload.base import (
    CanonicalKVCaches,
    GPULoadStoreSpec,
    OffloadingWorker,
    TransferResult,
)

from hicache_nsa.errors import HiCacheError
from hicache_nsa.integrations.offloading.chunk_pages import host_pages_of
from hicache_nsa.integrations.offloading.copies import Copies
from hicache_nsa.integrations.offloading.options import OffloadingOptions
from hicache_nsa.integrations.offloading.record import BlockTensor, record_of
from hicache_nsa.integrations.vllm.chunk_spec import HostChunkSpec
from hicache_nsa.integrations.vllm.geometry import Geometry
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.sizes import format_size
from hicache_nsa.transfer import D2H, H2D, TransferEngine

_log = logging.getLogger("vllm.hicache_nsa")


class HiCacheOffloadingWorker(OffloadingWorker):
    """Copies between the worker's KV tensors, whatever they are, and a host pool of its own.

    Raises:
        HiCacheError: the tensors' pages are larger than what the scheduler counted with, no memory
            for the host pool, or a device without a backend in this build.
    """

    def __init__(
        self, kv_caches: CanonicalKVCaches, options: OffloadingOptions, geometry: Geometry
    ) -> None:
        tensors = [BlockTensor(t.tensor, t.page_size_bytes) for t in kv_caches.tensors]
        record = record_of(geometry.model, geometry.page_size, tensors)
        if options.host_size is not None and record.format.page_bytes > geometry.page_bytes:
            raise HiCacheError(
                f"{geometry.model}: this worker's {len(tensors)} KV tensors take "
                f"{record.format.page_bytes} bytes a block, vLLM told the scheduler "
                f"{geometry.page_bytes}: the host tier would outgrow its size. Give host_pages "
                f"instead of host_size, or report this model"
            )
        self._pages_per_chunk = geometry.pages_per_chunk
        device = str(tensors[0].tensor.device)
        self.device_pool = DevicePool(record.format, record.buffers, device=device)
        self.host_pool = HostPool(
            record.format,
            pages=geometry.chunks * geometry.pages_per_chunk,
            layout=options.layout,
            **options.memory,
        )
        self.engine = TransferEngine(
            self.device_pool,
            self.host_pool,
            options.io_backend,
            pin_memory=options.pin_memory,
            **options.engine,
        )
        self.copies = Copies(self.engine)
        _log.info(
            "hicache-nsa: rank %d keeps %d host pages of %d tokens (%s: %d tensors, %s in all, %s)",
            geometry.rank,
            self.host_pool.num_pages,
            geometry.page_size,
            ", ".join(f"{len(b.layers)} x {b.page_bytes} B" for b in record.format.buffers),
            len(tensors),
            format_size(self.host_pool.nbytes),
            options.layout,
        )

    def submit_store(
        self, job_id: int, src_spec: GPULoadStoreSpec, dst_spec: HostChunkSpec
    ) -> bool:
        """Device to host, behind what the worker's stream has queued."""
        self._submit(job_id, D2H, src_spec, dst_spec)
        return True

    def submit_load(
        self,
        job_id: int,
        src_spec: HostChunkSpec,
        dst_spec: GPULoadStoreSpec,
        expedited: bool = False,
    ) -> bool:
        """Host to device. expedited (vLLM 0.33): it is waited for in this step; loads run in the
        order of their submission all the same.
        """
        self._submit(job_id, H2D, dst_spec, src_spec)
        return True

    def get_finished(self) -> list[TransferResult]:
        """Jobs that ended well.

        Raises:
            TransferError: one failed, and failed again on another way.
        """
        return [
            TransferResult(
                job_id=copy.job,
                success=True,
                transfer_size=copy.nbytes,
                transfer_time=copy.seconds,
            )
            for copy in self.copies.finished()
        ]

    def wait(self, job_ids: set[int]) -> None:
        """Until none of them is in flight. Raises as ``get_finished`` does."""
        self.copies.wait(job_ids)

    def shutdown(self) -> None:
        """Finish what is in flight and let go of the memory. Idempotent."""
        self.engine.close()
        self.copies.drop()
        self.host_pool.close()
        self.device_pool.close()

    def _submit(
        self, job: int, direction: str, blocks: GPULoadStoreSpec, chunks: HostChunkSpec
    ) -> None:
        device_pages = np.asarray(blocks.block_ids, dtype=np.int64)
        host_pages = host_pages_of(
            chunks.chunks, self._pages_per_chunk, first_page(blocks), len(device_pages)
        )
        self.copies.submit(job, direction, host_pages, device_pages)


def first_page(blocks: Any) -> int:
    """The index, in its prompt, of the first block of the one group there is."""
    return int(blocks.block_indices[0]) if len(blocks.block_indices) else 0
