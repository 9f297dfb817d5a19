"""What a cache finds in the host file that another one left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from engine import PAGE, device_holds, identity
from kept_cache import FORMAT, KeptCache

import hicache_nsa as hc
from hicache_nsa import _core, testing
from hicache_nsa.tokens import short_namespace

A = list(range(20))
B = [*range(8), *range(50, 62)]
LONG_KEY = "tenant " * 30


@pytest.fixture
def file() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="hicache-test-") as folder:
        yield Path(folder) / "pool"


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize("policy", ["write_through", "write_through_selective", "write_back"])
def test_what_was_saved_is_there_again(file: Path, policy: str, layout: str) -> None:
    with KeptCache(file, layout=layout, write_policy=policy) as first:
        for tokens, key in ((A, None), (B, None), (A, "lora"), (B, LONG_KEY)):
            first.put(tokens, key)
            if policy == "write_through_selective":
                first.cache.match_prefix(tokens, extra_key=key)
                first.put(tokens, key)
            assert first.cache.drain(30)
            first.cache.evict_device(1000)
            assert first.cache.drain(30)
        assert first.cache.stats().restored_host_tokens == 0
    with KeptCache(file, layout=layout, write_policy="write_through") as second:
        assert second.cache.stats().restored_host_tokens == 20 + 12 + 20 + 20
        assert (second.found(A), second.found(B)) == (20, 20)
        assert (second.found(A, "lora"), second.found(B, "lora")) == (20, 8)
        assert (second.found(A, LONG_KEY), second.found(B, LONG_KEY)) == (8, 20)
        assert second.found(A, LONG_KEY + "x") == second.found(A, "Lora") == 0
        with second.cache.load_back(second.cache.match_prefix(B)) as load:
            assert load.wait(30)
            for index, page in enumerate(load.pages.tolist()):
                assert device_holds(second.cache, page, identity(None, np.array(B), index))
        second.save([*A, 7, 8, 9, 10])
    with KeptCache(file, layout=layout) as third:
        assert third.found([*A, 7, 8, 9, 10]) == 24


def test_a_killed_process_leaves_what_was_acknowledged(file: Path) -> None:
    here = Path(__file__).parent
    code = (
        f"import sys; sys.path[:0] = [{str(here)!r}, {str(here.parent / 'cache')!r}]\n"
        "import os, signal\n"
        "from kept_cache import KeptCache\n"
        "from hicache_nsa import testing\n"
        f"kept = KeptCache({str(file)!r})\n"
        f"kept.save({A})\n"
        f"testing.hold(kept.cache, 'd2h').__enter__(); kept.put({B})\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == -9, ended.stderr
    assert [path.name for path in file.parent.iterdir()] == ["pool"]
    with KeptCache(file) as kept:
        assert (kept.found(A), kept.found(B)) == (20, 8)


def test_saves_that_end_with_the_cache_count(file: Path) -> None:
    with KeptCache(file, acks="poll") as first:
        first.put(A)
        assert first.cache.stats().saved_tokens == 0
    with KeptCache(file) as second:
        assert second.found(A) == 20


def test_failed_and_void_saves_leave_nothing(file: Path) -> None:
    with KeptCache(file, acks="poll") as first:
        testing.fail_next(first.cache, "d2h", after_pages=2)
        first.put(A)
        first.put(B, "lora")
        first.cache.invalidate()
        first.put(B)
    with KeptCache(file) as second:
        assert (second.found(A), second.found(B, "lora"), second.found(B)) == (8, 0, 20)


def test_what_leaves_the_host_leaves_the_file(file: Path) -> None:
    with KeptCache(file) as first:
        for tokens in (A, B):
            first.save(tokens)
        assert first.cache.evict_host(8) == 8
        first.cache.reset()
        kept = first.found(A) + first.found(B)
        assert kept == 20 + 20 - 8
    with KeptCache(file) as second:
        assert second.found(A) + second.found(B) == kept


@pytest.mark.parametrize("call", ["clear", "invalidate"])
def test_a_cache_that_was_emptied_leaves_nothing(file: Path, call: str) -> None:
    with KeptCache(file) as first:
        first.save(A)
        getattr(first.cache, call)()  # what it had is not freed yet
        first.cache.engine.close()
    with KeptCache(file) as second:
        assert second.found(A) == 0
        assert second.cache.stats().host.free_pages == 40
        second.save(B)
    with KeptCache(file) as third:
        assert (third.found(A), third.found(B)) == (8, 20)


def test_the_order_of_use_and_priorities_stay(file: Path) -> None:
    with KeptCache(file) as first:
        for key in ("old", "new", "important"):
            first.save(A, key)
        first.save(A[:12], "important", priority=5)  # raises that of the whole node
        first.save(B, "old")
    with KeptCache(file, eviction_policy="priority") as second:
        nodes = list(second.cache.tree.nodes())
        assert {node.hits for node in nodes} == {1}
        assert {n.priority for n in nodes} == {0, 5}
        second.cache.evict_host(20)
        assert second.found(A, "important") == second.found(B, "old") == 20
        assert second.found(A, "new") == 12 and second.found(A, "old") == 8


def test_other_pools_are_set_aside(file: Path) -> None:
    other = hc.formats.dsa(3, page_size=PAGE, kv_lora_rank=128, rope_head_dim=4)
    changes = (
        ({"host_pages": 39}, "it has 40 pages, wanted are 39"),
        ({"layout": "layer_first"}, "it has layout page_first, wanted is layer_first"),
        ({"weights": "model-2"}, "it holds the format"),
        ({"format": other}, "it holds the format"),
    )
    for number, (change, why) in enumerate(changes, start=1):
        with KeptCache(file, weights="model-1") as first:
            first.save(A)
        size = file.stat().st_size
        aside = file.with_name(f"pool.set-aside-{number}")
        options = {"host_pages": 40, "device_pages": 8, "weights": "model-1", **change}
        fmt = options.pop("format", first.cache.format)
        with pytest.warns(RuntimeWarning, match=f"{why}.*set aside as {aside}.*delete it"):
            second = hc.HiCache(fmt, host_file=file, **options)
        assert second.match_prefix(A).tokens == 0
        second.close()
        assert aside.stat().st_size == size
        file.unlink()
    aside.rename(file)
    with KeptCache(file, weights="model-1", layout="page_first_direct") as back:  # same bytes
        assert back.found(A) == 20


def test_a_damaged_entry_is_not_served(file: Path) -> None:
    with KeptCache(file) as first:
        first.save(A)
        first.save(B)
        first.cache.reset()
        page = int(first.cache.match_prefix(A).host_pages[3])
    where = 4096 + page * (128 + 8 * PAGE) + 128  # its first token
    with file.open("r+b") as raw:
        raw.seek(where)
        raw.write(bytes([raw.read(1)[0] ^ 1]))
    with (
        pytest.warns(RuntimeWarning, match="entries of 2 pages are damaged"),
        KeptCache(file) as second,
    ):
        assert (second.found(A), second.found(B)) == (12, 20)
        stats = second.cache.stats()
        assert stats.damaged_host_pages == 2 and stats.restored_host_tokens == 24
        assert stats.host.free_pages == 40 - 6
    with KeptCache(file) as third:
        assert third.cache.stats().damaged_host_pages == 0


def test_one_owner(file: Path) -> None:
    with KeptCache(file) as first:
        first.save(A)
        with pytest.raises(hc.HiCacheError, match=rf"owned by this process \({os.getpid()}\)"):
            KeptCache(file)
        code = (
            "import sys, hicache_nsa as hc\n"
            f"hc.HiCache(hc.formats.dsa(3), device_pages=8, host_pages=8, host_file={str(file)!r})"
        )
        other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert other.returncode == 1 and f"owned by process {os.getpid()}." in other.stderr
        view = first.cache.host_pool.view()
    with KeptCache(file) as second:  # whoever still looks at the bytes does not hold the file
        assert second.found(A) == 20 and len(view) > 0


def test_a_cache_that_could_not_be_made_holds_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_threads(*_: object) -> None:
        raise RuntimeError("no threads")

    with KeptCache(file) as first:
        first.save(A)
    with monkeypatch.context() as broken:
        broken.setattr(_core, "TransferEngine", no_threads)
        try:
            KeptCache(file)
        except hc.HiCacheError as error:
            assert "no threads" in str(error)
            broken.undo()
            with KeptCache(file) as second:  # while the error still holds the frames
                assert second.found(A) == 20


def test_a_child_that_outlives_its_parent_holds_nothing(file: Path) -> None:
    kept = KeptCache(file)
    kept.save(A)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        refused = False
        try:
            kept.cache.poll()
        except hc.HiCacheError:
            refused = True
        os.close(writing)
        os.read(reading, 1)
        os._exit(0 if refused else 1)
    os.close(reading)
    kept.cache.close()
    with KeptCache(file) as next_one:
        assert next_one.found(A) == 20
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


def test_bad_arguments(file: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a host tier, got host_pages=0"):
        KeptCache(file, host_pages=0)
    for wrong in (7, b"bytes", ["x"]):
        with pytest.raises(TypeError, match="host_file must be a path"):
            hc.HostPool(hc.formats.dsa(1), pages=1, host_file=wrong)
    for wrong in ("", f"{file}/"):
        with pytest.raises(ValueError, match="must be the path of a file"):
            hc.HostPool(hc.formats.dsa(1), pages=1, host_file=wrong)
    with pytest.raises(ValueError, match="No such file"):
        KeptCache(file.parent / "none" / "pool")
    with pytest.raises(ValueError, match="no memory file system"):
        KeptCache(Path("/proc/self/pool"))
    with pytest.raises(TypeError, match="weights must be a str"):
        KeptCache(file, weights=3)
    with pytest.raises(ValueError, match="kept in a host_file, and there is none"):
        hc.HostPool(hc.formats.dsa(1), pages=1, weights="model")
    with pytest.raises(hc.HiCacheError, match="directory"):
        KeptCache(file.parent)
    assert list(file.parent.iterdir()) == []


def test_the_size_counts_the_whole_file(file: Path) -> None:
    fmt = hc.formats.dsa(2)
    for size in (1_000_000, 10_000_000, "12MiB"):
        pool = hc.HostPool(fmt, size=size, host_file=file)
        limit = hc.sizes.parse_size(size, "size")
        assert len(pool.view()) == pool.num_pages * fmt.page_bytes
        assert limit - 2 * fmt.page_bytes - (2 << 20) < file.stat().st_size <= limit
        pool.close()
        file.unlink()
    with pytest.raises(ValueError, match="a host file with one page"):
        hc.HostPool(fmt, size=fmt.page_bytes + 100, host_file=file)


def test_without_touching(file: Path) -> None:
    for _ in range(2):
        with KeptCache(file, prefault=False) as kept:
            found = kept.found(A)
            kept.save(B, "other")
            if not found:
                kept.save(A)
    assert found == 20


def test_digests_are_there_again(file: Path) -> None:
    with KeptCache(file, verify="all") as first:
        first.save(A)
    with KeptCache(file, verify="all") as second:
        match = second.cache.match_prefix(A)
        testing.corrupt(second.cache, int(match.host_pages[2]), 1)
        load = second.cache.load_back(match)
        assert load is not None
        with pytest.raises(hc.TransferError, match="digest"):
            load.wait(30)
        load.release()
        assert second.found(A) == 2 * PAGE
        assert second.cache.stats().corrupt_pages == 1
    with KeptCache(file, verify="all") as third:
        assert third.found(A) == 2 * PAGE


def test_a_large_file_is_not_reserved_at_once(file: Path) -> None:
    """It is touched in the background, and what was saved before it is whole comes back."""
    size, first = "1100MiB", "8MiB"

    def held() -> int:
        return file.stat().st_blocks * 512

    with testing.hold_preparation():
        cache = hc.HiCache(FORMAT, device_pages=4, host_size=size, host_file=file,
                           prepare_first=first)  # fmt: skip
    assert held() < 200 << 20
    cache.insert(range(8), cache.allocate(2))
    assert cache.drain(30)
    cache.close()
    with hc.HiCache(FORMAT, device_pages=4, host_size=size, host_file=file) as again:
        assert again.stats().restored_host_tokens == 8
        assert again.host_pool.wait_ready(60)
        again.poll()
        again.check()
    assert held() >= file.stat().st_size
    with file.open("r+b") as damaged:  # and a hole is damage from now on
        damaged.truncate(file.stat().st_size - (64 << 20))
        damaged.truncate(file.stat().st_size + (64 << 20))
    with pytest.warns(RuntimeWarning, match="a part was cut out of it"):
        hc.HiCache(FORMAT, device_pages=4, host_size=size, host_file=file).close()


def test_nothing_piles_up(file: Path) -> None:
    """Descriptors, threads, mappings and files, over 50 caches."""

    def held() -> tuple[int, ...]:
        maps = Path("/proc/self/maps").read_text().count(str(file))
        return (*(len(list(Path(f"/proc/self/{of}").iterdir())) for of in ("fd", "task")), maps)

    with KeptCache(file) as kept:
        kept.save(A)
    before = held()
    for number in range(50):
        kept = KeptCache(file)
        assert kept.found(A) == 20
        if number % 2:
            kept.cache.close()
        del kept
    assert held() == before
    assert [path.name for path in file.parent.iterdir()] == ["pool"]


def test_namespaces_are_short_and_apart() -> None:
    keys = ["x" * n for n in range(200)] + [("x",) * n for n in range(1, 20)]
    short = [short_namespace(key) for key in keys]
    assert len(set(short)) == len(keys) and max(map(len, short)) <= 63
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert short_namespace(None) == b""
