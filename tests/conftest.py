"""What several folders of tests ask for."""

from __future__ import annotations

import pytest

from hicache_nsa import _core


@pytest.fixture
def no_gpu() -> str:
    """What the core says of ``cuda`` where there is none; skips on a machine with a GPU."""
    if not _core.build_info()["cuda"]:
        return "no CUDA backend"
    try:
        _core.cuda_device_index("cuda")
    except RuntimeError:
        return "needs a CUDA GPU and its driver"
    pytest.skip("there is a GPU")
