"""What every server has to go through: with SGLang's own tree, and without SGLang, CPU or GPU.

A server has ``serve``, ``settle``, ``flush``, ``drop_device``, ``check`` and ``linker``. ``serve``
compares each page that comes back, every byte, layer by layer.
"""

from __future__ import annotations

import random
import threading
from typing import Any

from served_request import Served

from hicache_nsa.testing import fail_next, hold


def prompt(seed: int, pages: int, page_size: int) -> list[int]:
    """Tokens of whole pages; the same seed gives the same beginning."""
    draw = random.Random(seed)
    return [draw.randrange(100_000) for _ in range(pages * page_size)]


def warm_flush(server: Any) -> None:
    """Store, hit on the device, flush, host hit: identical bytes, nothing computed again."""
    tokens = prompt(1, 5, server.page_size)
    assert server.serve(tokens) == Served(0, 0, 5)
    assert server.settle() == [True]
    assert server.serve(tokens) == Served(5, 0, 0)
    server.flush()
    assert server.serve(tokens) == Served(0, 5, 0)
    server.settle()
    server.check()
    assert server.linker.stats().loaded_pages == 5
    assert server.linker.stats().stored_pages == 5  # what came from the host isn't saved again


def longer_prompt(server: Any) -> None:
    """A host hit that is part of a longer prompt, and one behind a device hit."""
    tokens = prompt(2, 6, server.page_size)
    server.serve(tokens[: 3 * server.page_size])
    server.settle()
    server.flush()
    assert server.serve(tokens) == Served(0, 3, 3)
    server.settle()
    server.drop_device()
    assert server.serve(tokens[: 2 * server.page_size]) == Served(0, 2, 0)
    assert server.serve(tokens) == Served(2, 4, 0)
    server.settle()
    server.check()


def shared_prefix(server: Any) -> None:
    """Requests that share a prefix; after the flush each is restored from the same pages."""
    common = prompt(3, 3, server.page_size)
    requests = [common + prompt(30 + n, 2, server.page_size) for n in range(3)]
    for tokens in requests:
        server.serve(tokens)
    server.settle()
    server.flush()
    assert server.serve(requests[0]) == Served(0, 5, 0)
    assert server.serve(requests[1]) == Served(3, 2, 0)
    assert server.serve(requests[2]) == Served(3, 2, 0)
    server.settle()
    server.check()


def second_flush(server: Any) -> None:
    """Flush after flush: host pages stay and are found again (F18)."""
    tokens = prompt(4, 4, server.page_size)
    server.serve(tokens)
    for _ in range(3):
        server.flush()
    assert server.linker.stats().host.hit_pages == 4
    assert server.serve(tokens) == Served(0, 4, 0)
    server.flush()
    assert server.serve(tokens) == Served(0, 4, 0)
    server.settle()
    server.check()


def host_eviction(server: Any) -> None:
    """More than the host pool holds: the least recently used goes, what is left is right."""
    capacity = server.linker.host_pool.num_pages
    prompts = [prompt(50 + n, 4, server.page_size) for n in range(capacity // 4 + 2)]
    for tokens in prompts:
        server.serve(tokens)
        server.settle()
        server.drop_device()
    assert server.linker.stats().host.evicted_keys >= 4
    newest, oldest = prompts[-1], prompts[0]
    assert server.serve(newest) == Served(0, 4, 0)
    assert server.serve(oldest).host < 4
    server.settle()
    server.check()


def failed_load(server: Any) -> None:
    """A copy that fails aborts the request and leaves nothing behind; the next is fine (F05)."""
    tokens = prompt(6, 4, server.page_size)
    server.serve(tokens)
    server.settle()
    server.flush()
    fail_next(server.linker.engine, "h2d", after_pages=1)
    assert server.serve(tokens).aborted
    assert server.linker.stats().failed_loads == 1
    assert server.linker.stats().host.pinned_pages == 0
    assert server.serve(tokens) == Served(0, 4, 0)
    server.settle()
    server.check()


def failed_offload(server: Any) -> None:
    """A save that fails is never found; the prefix can be stored again (F05)."""
    tokens = prompt(7, 4, server.page_size)
    fail_next(server.linker.engine, "d2h", after_pages=2)
    server.serve(tokens)
    assert server.settle() == [False]
    stats = server.linker.stats()
    assert (stats.failed_offloads, stats.host.hit_pages) == (1, 0)
    assert stats.host.free_pages == stats.host.total_pages
    server.flush()
    assert server.serve(tokens) == Served(0, 0, 4)
    assert server.settle() == [True]
    server.flush()
    assert server.serve(tokens) == Served(0, 4, 0)
    server.settle()
    server.check()


def layer_by_layer(server: Any) -> None:
    """A forward that comes before its pages waits for them: the copy is held for a while."""
    tokens = prompt(13, 4, server.page_size)
    server.serve(tokens)
    server.settle()
    server.flush()
    engine = server.linker.engine
    engine.hold("h2d")
    timer = threading.Timer(0.3, engine.release, ["h2d"])
    timer.start()
    assert server.serve(tokens) == Served(0, 4, 0)
    timer.join()
    server.settle()
    server.check()


def first_in_first_out(server: Any) -> None:
    """Nothing completes past an offload that is in flight, even if it needs no copy (F17)."""
    one, two = prompt(8, 2, server.page_size), prompt(9, 2, server.page_size)
    server.serve(two)
    server.settle()
    server.drop_device()
    with hold(server.linker.engine, "d2h"):
        server.serve(one)
        assert server.serve(two) == Served(0, 2, 0)
        assert server.linker.num_completed_offloads() == 0
    assert server.settle() == [True, True]
    server.check()


def reset_in_flight(server: Any) -> None:
    """A flush waits for offloads in flight, and what they stored is found afterwards."""
    tokens = prompt(10, 4, server.page_size)
    server.serve(tokens)
    server.flush()
    assert server.linker.num_completed_offloads() == 0
    assert server.serve(tokens) == Served(0, 4, 0)
    server.settle()
    server.check()


def many_requests(server: Any) -> None:
    """Random prompts that share beginnings, with flushes and device evictions in between."""
    draw = random.Random(11)
    trunks = [prompt(100 + n, 4, server.page_size) for n in range(4)]
    for step in range(60):
        trunk = trunks[draw.randrange(4)][: draw.randrange(1, 5) * server.page_size]
        branch = prompt(200 + draw.randrange(12), draw.randrange(0, 3), server.page_size)
        served = server.serve(trunk + branch)
        assert served.device + served.host + served.computed == (
            len(trunk + branch) // server.page_size
        )
        if step % 7 == 3:
            server.settle()
        if step % 11 == 5:
            server.drop_device()
        if step % 17 == 8:
            server.flush()
    server.settle()
    server.check()
    stats = server.linker.stats()
    assert stats.loaded_pages > 20  # else nothing was tested
    server.flush()
    assert server.linker.stats().host.pinned_pages == 0


def prefix_outlives_suffixes(server: Any) -> None:
    """A prefix that stays on the device keeps its host pages as long as something is below it.

    Not among SCENARIOS: SGLang says what is above a tail only while our hooks are installed.
    """
    common = prompt(12, 4, server.page_size)
    server.serve(common)
    server.settle()
    suffixes = server.linker.host_pool.num_pages // 2  # more than there is room for
    for n in range(suffixes):
        tokens = common + prompt(300 + n, 2, server.page_size)
        assert server.serve(tokens) == Served(4, 0, 2)
        server.settle()
    assert server.linker.stats().host.evicted_keys >= 4
    server.flush()
    assert server.serve(tokens) == Served(0, 6, 0)
    server.settle()
    server.check()


SCENARIOS = [
    warm_flush,
    longer_prompt,
    shared_prefix,
    second_flush,
    host_eviction,
    failed_load,
    failed_offload,
    layer_by_layer,
    first_in_first_out,
    reset_in_flight,
    many_requests,
]
