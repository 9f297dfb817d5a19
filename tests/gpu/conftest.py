"""Everything here needs a GPU, and says so where there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hicache_nsa import _core

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "cache"))  # the random driver
sys.path.append(str(TESTS / "cases"))  # heartbeat
sys.path.append(str(TESTS / "integrations" / "sglang_linker"))  # scenarios of the linker


def why_not() -> str | None:
    if not _core.build_info()["cuda"]:
        return "this build has no CUDA backend"
    try:
        _core.cuda_device_index("cuda")
        import torch
    except (RuntimeError, ImportError) as error:
        return str(error)
    return None if torch.cuda.is_available() else "torch sees no GPU"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    mine = [item for item in items if Path(__file__).parent in item.path.parents]
    reason = why_not() if mine else None
    for item in mine:
        item.add_marker(pytest.mark.gpu)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs a GPU: {reason}"))
