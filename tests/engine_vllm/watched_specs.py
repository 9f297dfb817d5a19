"""Our spec with workers that watch every page, and mutants of it that break pages on purpose.

vLLM loads these by name; the engine runs in the same process, so that ``WATCH`` can be read.
"""

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import torch

from hicache_nsa.integrations.offloading.chunk_pages import host_pages_of
from hicache_nsa.integrations.vllm import HiCacheOffloadingSpec, HiCacheOffloadingWorker
from hicache_nsa.integrations.vllm.worker import first_page
from hicache_nsa.transfer import D2H, H2D


@dataclass
class Watch:
    """What came by in one engine. same, different: pages that came back, against those stored."""

    stored: dict[int, bytes] = field(default_factory=dict)
    same: int = 0
    different: int = 0
    repeated: int = 0

    def forget(self) -> None:
        """Before the next engine."""
        self.stored.clear()
        self.same = self.different = self.repeated = 0


WATCH = Watch()


class WatchedWorker(HiCacheOffloadingWorker):
    """Remembers the bytes of every stored page, and compares those of every loaded one."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._loads: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def _submit(self, job: int, direction: str, blocks: Any, chunks: Any) -> None:
        device = np.asarray(blocks.block_ids, dtype=np.int64)
        host = host_pages_of(chunks.chunks, self._pages_per_chunk, first_page(blocks), len(device))
        if direction == D2H:
            for page, bytes_of_page in zip(host, self._pages(device), strict=True):
                WATCH.stored[int(page)] = bytes_of_page
        else:
            self._loads[job] = host, device
        super()._submit(job, direction, blocks, self.before_copy(direction, chunks))

    def get_finished(self) -> list[Any]:
        results = super().get_finished()
        for result in results:
            if result.job_id in self._loads:
                self._landed(*self._loads.pop(result.job_id))
        WATCH.repeated = self.copies.repeated
        return results

    def before_copy(self, direction: str, chunks: Any) -> Any:
        """For those that make copies fail, or copy other chunks."""
        return chunks

    def after_load(self, tensor: torch.Tensor, pages: torch.Tensor) -> None:
        """For the mutants: ``tensor`` is [pages, bytes of a page] of one layer."""

    def _landed(self, host: np.ndarray, device: np.ndarray) -> None:
        for tensor in self._tensors():
            self.after_load(tensor, torch.from_numpy(device))
        for page, bytes_of_page in zip(host, self._pages(device), strict=True):
            if WATCH.stored[int(page)] == bytes_of_page:
                WATCH.same += 1
            else:
                WATCH.different += 1

    def _tensors(self) -> list[torch.Tensor]:
        return [tensor for layers in self.device_pool.buffers.values() for tensor in layers]

    def _pages(self, device: np.ndarray) -> list[bytes]:
        """The bytes of device pages, over all tensors, not by our engine."""
        rows = [tensor[torch.from_numpy(device)].numpy() for tensor in self._tensors()]
        return [b"".join(row[i].tobytes() for row in rows) for i in range(len(device))]


class ZeroWorker(WatchedWorker):
    def after_load(self, tensor: torch.Tensor, pages: torch.Tensor) -> None:
        tensor[pages] = 0


class SwapWorker(WatchedWorker):
    """Each page has its neighbour's bytes. Attention over what is past is a sum over tokens whose
    keys carry their place: a model's answers hardly show it, the bytes do.
    """

    def after_load(self, tensor: torch.Tensor, pages: torch.Tensor) -> None:
        tensor[pages] = tensor[pages.roll(1)]


class ForeignWorker(WatchedWorker):
    """Each load brings what another request has: the pages of the load before it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._host_pages: np.ndarray | None = None

    def before_copy(self, direction: str, chunks: Any) -> Any:
        if direction != H2D:
            return chunks
        before, self._host_pages = self._host_pages, chunks.chunks
        if before is None:
            return chunks
        return replace(chunks, chunks=np.resize(before, len(chunks.chunks)))


class ShiftWorker(WatchedWorker):
    """Each page is shifted by 128 bytes: half a token's keys."""

    def after_load(self, tensor: torch.Tensor, pages: torch.Tensor) -> None:
        tensor[pages] = tensor[pages].roll(128, dims=1)


class LateWorker(WatchedWorker):
    """Reports a store only when it has been asked 60 times more (once a step)."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._late: list[tuple[int, Any]] = []
        self._asked = 0

    def get_finished(self) -> list[Any]:
        loads = set(self._loads)
        self._asked += 1
        results = super().get_finished()
        self._late += [(self._asked + 60, r) for r in results if r.job_id not in loads]
        due = [result for when, result in self._late if when <= self._asked]
        self._late = [(when, result) for when, result in self._late if when > self._asked]
        return [r for r in results if r.job_id in loads] + due


class FailOnceWorker(WatchedWorker):
    """The first load and the first store fail on the transfer engine."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._failed: set[str] = set()

    def before_copy(self, direction: str, chunks: Any) -> Any:
        if direction not in self._failed:
            self._failed.add(direction)
            self.engine.fail_next(direction)
        return chunks


class FailTwiceWorker(FailOnceWorker):
    """The first load fails, and again on the other way."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._failed.add(D2H)

    def before_copy(self, direction: str, chunks: Any) -> Any:
        if direction == H2D:
            self.copies._again = _fails
        return super().before_copy(direction, chunks)


def _fails(*args: Any) -> None:
    raise OSError("the other way is broken as well")


class WatchedSpec(HiCacheOffloadingSpec):
    worker_class: ClassVar[type[HiCacheOffloadingWorker]] = WatchedWorker


class ZeroSpec(HiCacheOffloadingSpec):
    worker_class = ZeroWorker


class SwapSpec(HiCacheOffloadingSpec):
    worker_class = SwapWorker


class ForeignSpec(HiCacheOffloadingSpec):
    worker_class = ForeignWorker


class ShiftSpec(HiCacheOffloadingSpec):
    worker_class = ShiftWorker


class LateSpec(HiCacheOffloadingSpec):
    worker_class = LateWorker


class FailOnceSpec(HiCacheOffloadingSpec):
    worker_class = FailOnceWorker


class FailTwiceSpec(HiCacheOffloadingSpec):
    worker_class = FailTwiceWorker
