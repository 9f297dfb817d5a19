"""Host files on file systems that are mounted for the test; only root can do that."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kept_cache import FORMAT, KeptCache

import hicache_nsa as hc
from hicache_nsa import testing
from hicache_nsa.memory_budget import claims

LARGE = {"device_pages": 4, "prepare_first": "4MiB"}
HUGE = Path("/proc/sys/vm/nr_hugepages")
TOKENS = list(range(40))


def mounted(folder: Path, kind: str, options: str) -> bool:
    command = ["mount", "-t", kind, "-o", options, "none", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0


def tmpfs(folder: Path, size: str) -> Iterator[Path]:
    if not mounted(folder, "tmpfs", f"size={size}"):
        pytest.skip("a tmpfs can't be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 1 MiB."""
    yield from tmpfs(tmp_path, "1m")


@pytest.fixture
def large(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs in which a file that is touched, not reserved, has room."""
    yield from tmpfs(tmp_path, "1200m")


@pytest.fixture
def huge(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Path]:
    """hugetlbfs with 8 pages of 2 MiB, or as many as are asked for."""
    wanted = getattr(request, "param", 8)
    before = HUGE.read_text().strip() if HUGE.exists() else "0"
    try:
        HUGE.write_text(str(int(before) + wanted))
    except OSError:
        pytest.skip("huge pages can't be reserved here")
    try:
        reserved = int(HUGE.read_text()) - int(before)
        if reserved < wanted or not mounted(tmp_path, "hugetlbfs", "pagesize=2M"):
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


def test_a_file_system_that_fills_up_meanwhile_ends_the_pool(large: Path) -> None:
    with testing.hold_preparation():
        cache = hc.HiCache(FORMAT, host_size="1100MiB", host_file=large / "pool", **LARGE)
    with (large / "other").open("wb") as other:
        os.posix_fallocate(other.fileno(), 0, 1000 << 20)
    testing.finish_preparation(cache)
    with pytest.raises(hc.HiCacheError, match=r"Host memory ends at .*No space left on device"):
        cache.host_pool.wait_ready(60)
    with pytest.warns(RuntimeWarning, match="Host memory ends at"):
        cache.poll()
    cache.check()
    assert 0 < cache.stats().host.total_pages < cache.host_pool.num_pages
    cache.close()


@pytest.mark.parametrize("huge", [560], indirect=True)
def test_huge_pages_that_a_file_has_reserved_are_its_own(huge: Path) -> None:
    """Its process ended before it had touched them; they are not free, and nobody else's."""
    pool = {"host_size": "1100MiB", "host_file": huge / "pool", **LARGE}
    with testing.hold_preparation():
        cache = hc.HiCache(FORMAT, **pool)
        assert [claim.pending for claim in claims._claims] == [0]
        cache.close()
    with hc.HiCache(FORMAT, **pool) as again:
        assert again.host_pool.wait_ready(60)
        again.check()


@pytest.mark.parametrize("huge", [8], indirect=True)
def test_explicit_huge_pages_are_counted_once(huge: Path) -> None:
    options = {"pages": 1000, "huge_pages": "explicit", "prepare_first": 0}
    with testing.hold_preparation():
        pools = [hc.HostPool(FORMAT, **options) for _ in range(2)]
        for pool in pools:
            assert pool.memory_kind.huge_pages == "explicit"
    assert [claim.nbytes for claim in claims._claims] == [4 << 20] * 2
    assert [claim.pending for claim in claims._claims] == [0, 0]
    for pool in pools:
        pool.close()
