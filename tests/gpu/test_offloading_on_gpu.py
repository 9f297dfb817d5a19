"""The jobs of an engine's worker on GPU tensors, and the second try of those that fail."""

from __future__ import annotations

import numpy as np
import pytest
from gpu_pools import GUARD, LAYOUTS, WAYS, Pools

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.integrations.offloading.copies import Copies
from hicache_nsa.transfer import D2H, H2D

FORMAT = hc.formats.dsa(3, page_size=64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", WAYS)
def test_f05_a_failed_copy_is_made_again_on_a_gpu(layout: str, way: str) -> None:
    with Pools(FORMAT, 6, 8, layout=layout, io_backend=way) as pools:
        copies = Copies(pools.engine)
        for page in range(6):
            pools.fill_device(page, page)
        for job, direction, host, device in (
            (1, D2H, [7, 3], [0, 1]),
            (2, H2D, [7, 3], [5, 4]),
        ):
            testing.fail_next(pools.engine, direction, 1)
            copies.submit(job, direction, np.array(host), np.array(device))
            copies.wait([job])
            assert [copy.job for copy in copies.finished()] == [job]
            if direction == D2H:
                pools.memory.fill_(GUARD)
        assert copies.repeated == 2
        assert pools.device_holds(5, 0) and pools.device_holds(4, 1)
        assert all(pools.is_guard(page, "device") for page in range(4))
