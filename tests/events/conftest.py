"""The caches and random histories of other folders, for tests of events."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
for folder in ("model", "cache", "cases", "restart"):
    sys.path.append(str(TESTS / folder))


@pytest.fixture
def memory_folder() -> Iterator[Path]:
    """Where host files can be."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        yield Path(folder)
