"""Host files on file systems that are mounted for the test; only root can do that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_cache import KeptCache

import hicache_nsa as hc

HUGE = Path("/proc/sys/vm/nr_hugepages")
TOKENS = list(range(40))


def mounted(folder: Path, kind: str, options: str) -> bool:
    command = ["mount", "-t", kind, "-o", options, "none", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB."""
    if not mounted(tmp_path, "tmpfs", "size=1m"):
        pytest.skip("a tmpfs can't be mounted here")
    yield tmp_path
    subprocess.run(["umount", str(tmp_path)], check=True)


@pytest.fixture
def huge(tmp_path: Path) -> Iterator[Path]:
    """hugetlbfs with 8 pages of 2 MiB."""
    before = HUGE.read_text().strip() if HUGE.exists() else "0"
    try:
        HUGE.write_text(str(int(before) + 8))
    except OSError:
        pytest.skip("huge pages can't be reserved here")
    try:
        reserved = int(HUGE.read_text()) - int(before)
        if reserved < 8 or not mounted(tmp_path, "hugetlbfs", "pagesize=2M"):
            pytest.skip("there are no huge pages to be had, or hugetlbfs can't be mounted here")
        yield tmp_path
        subprocess.run(["umount", str(tmp_path)], check=True)
    finally:
        HUGE.write_text(before)


def test_a_full_file_system_is_refused_with_the_numbers(small: Path) -> None:
    with pytest.raises(
        hc.HiCacheError,
        match=r"no memory .*: requested 4\d{6} bytes, allowed 1048576 .*free space of",
    ):
        KeptCache(small / "pool", host_pages=1000)
    (small / "other").write_bytes(bytes(900_000))
    with pytest.raises(hc.HiCacheError, match=r"allowed 14[0-9]{4} bytes"):
        KeptCache(small / "pool", host_pages=100)
    assert [path.name for path in small.iterdir()] == ["other"]
    (small / "other").unlink()
    with KeptCache(small / "pool", host_pages=100) as kept:  # and what fits is all there
        kept.save(TOKENS)
        (small / "other").write_bytes(b"x")
        with pytest.raises(OSError, match="No space"):
            (small / "other").write_bytes(bytes(1 << 20))
        for number in range(90):
            kept.save(range(number, number + 4), "fill")
    with KeptCache(small / "pool", host_pages=100) as again:
        assert sum(again.found(range(n, n + 4), "fill") for n in range(90)) == 90 * 4


def test_hugetlbfs(huge: Path) -> None:
    file = huge / "pool"
    with KeptCache(file, host_pages=1000) as kept:
        kept.save(TOKENS)
        assert file.stat().st_size == 6 << 20
    with KeptCache(file, host_pages=1000) as again:
        assert again.found(TOKENS) == 40
    with pytest.raises(
        hc.HiCacheError, match=r"no memory .*allowed 10485760 bytes .*free_hugepages"
    ):
        KeptCache(huge / "large", host_pages=10_000)
    assert [path.name for path in huge.iterdir()] == ["pool"]
    file.unlink()
