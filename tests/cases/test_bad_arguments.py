"""Bad arguments: every one of them raises before anything changes."""

from __future__ import annotations

import numpy as np
import pytest
from case_cache import FORMAT, LONG, CaseCache, P

import hicache_nsa as hc
from hicache_nsa import testing

torch = pytest.importorskip("torch")

WRONG = (TypeError, ValueError)
A = list(range(8))


def some(**options):
    return hc.HiCache(**{"format": FORMAT, "device_pages": 4, "host_pages": 4, **options})


class Refusing:
    """An object that is nothing in particular."""


OPTIONS = {
    "format": ["dsa", None, 5],
    "device": ["tpu", "cpu:zero:1", None, ""],
    "device_pages": [-1, 1.5, "4", True, False, 2**70],
    "device_reserved": [[4], [-1], [2**40], [1.5], [True], "0", 3, [[0]]],
    "host_pages": [-1, 1.5, 0.0, "4", True, False, None, 2**70],
    "layout": ["page-first", "", None, 3],
    "io_backend": ["fast", None, 3],
    "write_policy": ["write_around", "", None, 3],
    "write_threshold": [0, -1, 1.5, "2", True, None],
    "eviction_policy": ["random", "", None, 3],
    "load_back_threshold": [-1, 1.5, "8", True, False],
    "spare": [-0.1, 0.6, "5%", None, True],
    "pin_share": [-0.1, 0.91, float("nan"), "5%", None, True],
    "clock": [None, 3, "monotonic", 1.5],
    "pin_memory": ["yes", None, 2],
    "stream": ["default", 7, -1, True, 1.5, Refusing()],
    "acks": ["never", "", None, True],
}


@pytest.mark.parametrize(
    "name, value", [(name, value) for name, values in OPTIONS.items() for value in values]
)
def test_options_of_the_cache(name, value):
    with pytest.raises(WRONG):
        some(**{name: value})


@pytest.mark.parametrize(
    "name, value, known",
    [
        ("layout", "rows", ["layer_first", "page_first", "page_first_direct"]),
        ("io_backend", "sm", ["kernel", "direct", "auto"]),
        ("write_policy", "around", ["write_through", "write_through_selective", "write_back"]),
        ("eviction_policy", "rnd", ["lru", "lfu", "fifo", "mru", "filo", "slru", "priority"]),
        ("acks", "now", ["auto", "poll"]),
    ],
)
def test_an_unknown_name_is_answered_with_the_known_ones(name, value, known):
    with pytest.raises(ValueError) as caught:
        some(**{name: value})
    assert value in str(caught.value)
    assert all(each in str(caught.value) for each in known)


def test_both_or_neither_of_two_sizes():
    for sizes in ({"host_pages": None}, {"host_pages": 4, "host_size": "1GiB"}):
        with pytest.raises(ValueError, match=r"host_pages.*host_size"):
            some(**sizes)
    with pytest.raises(ValueError, match=r"device_pages.*device_buffers"):
        some(device_pages=None)


BUFFERS = {
    b.name: [np.zeros((4, b.page_bytes), np.uint8) for _ in b.layers] for b in FORMAT.buffers
}
WRONG_BUFFERS = {
    "no mapping": [BUFFERS["latent"], BUFFERS["index_k"]],
    "latent only": {"latent": BUFFERS["latent"]},
    "one too many": {**BUFFERS, "v": BUFFERS["latent"]},
    "a layer is missing": {**BUFFERS, "index_k": BUFFERS["index_k"][:2]},
    "no tensor": {**BUFFERS, "index_k": [Refusing()] * 3},
    "a list": {**BUFFERS, "index_k": [[[0] * 528] * 4] * 3},
    "objects": {**BUFFERS, "index_k": [np.zeros((4, 528), object)] * 3},
    "one tensor for all layers": {**BUFFERS, "index_k": [BUFFERS["index_k"][0]] * 3},
    "another page count": {**BUFFERS, "index_k": [b[:3] for b in BUFFERS["index_k"]]},
    "the index in place of the latent": {**BUFFERS, "latent": BUFFERS["index_k"]},
}


@pytest.mark.parametrize("buffers", WRONG_BUFFERS.values(), ids=WRONG_BUFFERS)
def test_device_buffers(buffers):
    with pytest.raises(WRONG):
        hc.HiCache(FORMAT, device_buffers=buffers, host_size="1000GiB")


def test_device_buffers_and_a_page_count_must_agree():
    with pytest.raises(ValueError, match=r"4 pages, expected 5"):
        some(device_buffers=BUFFERS, device_pages=5)
    some(device_buffers=BUFFERS, device_pages=4).close()


# -- methods -------------------------------------------------------------------------------------

TOKENS = [
    None, 3, "12345678", b"12345678", {1, 2, 3, 4}, {1: 2}, [1.0, 2.0, 3.0, 4.0], [1, 2, 3, 4.5],
    [True, False, True, True], [1, 2, 3, True], [1, None, 3, 4], ["1", "2", "3", "4"],
    [[1, 2, 3, 4]], [[1, 2], [3]], [2**63, 1, 2, 3], [-(2**63) - 1, 1, 2, 3], [1 + 0j] * 4,
    np.zeros(4), np.zeros(4, bool), np.zeros((2, 4), np.int64), np.int64(3), np.zeros(4, "M8[s]"),
    np.array([2**63], np.uint64), np.zeros(0), torch.zeros(4), torch.zeros((1, 4)),
    torch.zeros((1, 4), dtype=torch.int64), torch.zeros(4, dtype=torch.bool),
    torch.zeros(4, dtype=torch.bfloat16), torch.zeros(4, dtype=torch.int64, device="meta"),
    torch.zeros(4, dtype=torch.int64).to_sparse(), Refusing(), iter([1, 2]),
]  # fmt: skip
PAGES = [
    [0.0, 1.0], [0, 1.5], [True, False], [0, True], [-1, 0], [0, 2**40], [0, 8], [2**63, 0],
    [[0, 1]], "01", None, 0, np.zeros(2), np.zeros((1, 2), np.int64), torch.zeros(2), {0, 1},
    [0, None], np.array([0, 2**63], np.uint64), Refusing(),
]  # fmt: skip
COUNTS = [-1, 1.0, "4", None, True, [4], np.zeros(1)]
STREAMS = ["default", 7, True, 1.5, Refusing()]
KEYS = [1.5, True, ["a"], {"a": 1}, ("a", 1.5), ("a", ["b"]), Refusing()]
MATCHES = [None, "match", 3, "a handle"]
HANDLES = [None, "handle", 3, True, "a match"]
SECONDS = [0, -1, 0.0, float("nan"), float("inf"), "1", True, None, [1], 10**400]
LIMITS = [-1, -0.001, "1", True, float("nan"), [1]]

METHODS = {
    "match_prefix tokens": (lambda c, x, v: c.match_prefix(v), TOKENS),
    "match_prefix extra_key": (lambda c, x, v: c.match_prefix(A, extra_key=v), KEYS),
    "load_back match": (lambda c, x, v: c.load_back(x.get(v, v)), MATCHES),
    "load_back stream": (lambda c, x, v: c.load_back(x["a match"], stream=v), STREAMS),
    "load_back max_tokens": (
        lambda c, x, v: c.load_back(x["a match"], max_tokens=v), [0, -1, 1.0, 4.5, "4", True, [4]],
    ),
    "allocate": (lambda c, x, v: c.allocate(v), COUNTS),
    "free pages": (lambda c, x, v: c.free(v), PAGES),
    "free stream": (lambda c, x, v: c.free(x["mine"], stream=v), STREAMS),
    "insert tokens": (lambda c, x, v: c.insert(v, x["mine"]), TOKENS),
    "insert pages": (lambda c, x, v: c.insert(A, v), PAGES),
    "insert extra_key": (lambda c, x, v: c.insert(A, x["mine"], extra_key=v), KEYS),
    "insert stream": (lambda c, x, v: c.insert(A, x["mine"], stream=v), STREAMS),
    "insert priority": (
        lambda c, x, v: c.insert(A, x["mine"], priority=v), [1.5, "1", None, True, [1]],
    ),
    "insert lock": (
        lambda c, x, v: c.insert(A, x["mine"], lock=x.get(v, v)), [1, "yes", 0, "a match"],
    ),
    "lock": (lambda c, x, v: c.lock(x.get(v, v)), MATCHES),
    "pin match": (lambda c, x, v: c.pin(x.get(v, v), 1), MATCHES),
    "pin seconds": (lambda c, x, v: c.pin(x["a match"], v), SECONDS),
    "unlock handle": (lambda c, x, v: c.unlock(x.get(v, v)), HANDLES),
    "unlock stream": (lambda c, x, v: c.unlock(x["a handle"], stream=v), STREAMS),
    "evict_device": (lambda c, x, v: c.evict_device(v), COUNTS),
    "evict_host": (lambda c, x, v: c.evict_host(v), COUNTS),
    "poll": (lambda c, x, v: c.poll(v), [-1, 1.0, "1", True, [1]]),
    "drain": (lambda c, x, v: c.drain(v), LIMITS),
    "LoadBack.wait": (lambda c, x, v: x["load"].wait(v), LIMITS),
    "LoadBack.wait_layer": (
        lambda c, x, v: x["load"].wait_layer(v), [-1, 3, 2**70, None, "0", 1.5],
    ),
    "LoadBack.wait_layer stream": (lambda c, x, v: x["load"].wait_layer(0, stream=v), STREAMS),
    "LoadBack.release stream": (lambda c, x, v: x["load"].release(stream=v), STREAMS),
    "LoadBack.cancel stream": (lambda c, x, v: x["load"].cancel(stream=v), STREAMS),
    "hold": (lambda c, x, v: testing.hold(c, v).__enter__(), ["up", None, "H2D", 3]),
    "fail_next direction": (lambda c, x, v: testing.fail_next(c, v), ["up", None, 3]),
    "fail_next pages": (lambda c, x, v: testing.fail_next(c, "h2d", v), [-1, 1.5, "1", None]),
}  # fmt: skip


@pytest.fixture(scope="module")
def used():
    """A cache in which something of everything is going on, and its handles."""
    c = CaseCache(8 * P, 8 * P)
    c.put_on_host([*range(50, 58)])
    c.put(range(100, 104))
    load = c.start_load(range(50, 58))
    load.wait(LONG)
    extras = {"load": load, "a match": c.match_prefix(range(100, 104)), "mine": c.allocate(2)}
    extras["a handle"] = c.lock(extras["a match"])
    assert c.drain(LONG)
    yield c.cache, extras
    c.close()


@pytest.mark.parametrize("name", METHODS)
def test_arguments_of_methods(name, used):
    cache, extras = used
    call, values = METHODS[name]
    for value in values:
        before = snapshot(cache)
        with pytest.raises(WRONG):
            call(cache, extras, value)
            pytest.fail(f"{name}: {value!r} was accepted")
        cache.check()
        assert snapshot(cache) == before, value


def snapshot(cache):
    nodes = sorted(
        (n.start, n.end, tuple(n.key.numpy()), tuple(n.device_pages), tuple(n.host_pages),
         n.lock_ref, n.hits, n.last_access)
        for n in cache.tree.nodes()
    )  # fmt: skip
    return nodes, cache.stats()


def test_handles_of_another_cache_are_refused(used):
    _, extras = used
    with CaseCache(16, 16) as c:
        c.put(range(100, 104))
        assert c.drain(LONG)
        pages = c.allocate(1)
        for call in (
            lambda: c.load_back(extras["a match"]),
            lambda: c.lock(extras["a match"]),
            lambda: c.pin(extras["a match"], 1),
            lambda: c.unlock(extras["a handle"]),
            lambda: c.insert(range(4), pages, lock=extras["a handle"]),
        ):
            with pytest.raises(ValueError, match="another cache"):
                call()
        assert c.device.locked == 0 and c.device.owned == 4


@pytest.mark.parametrize("count", [9, 2**31, 2**64, 10**30])
def test_more_pages_than_there_are(count, used):
    cache, _ = used
    before = snapshot(cache)
    with pytest.raises(hc.OutOfPages, match=str(count)):
        cache.allocate(count)
    assert snapshot(cache) == before


FINE = [
    [], np.zeros(0, np.int64), torch.arange(8), np.arange(8, dtype=np.uint8), np.arange(16)[::2],
    range(8), tuple(range(8)), [np.int64(3)] * 4, [-1] * 4, [2**63 - 1] * 4, torch.arange(16)[::2],
    np.arange(8).astype(">i4"), torch.arange(8, dtype=torch.int32),
]  # fmt: skip


def test_what_is_fine_is_accepted():
    with CaseCache(32, 32) as c:
        for tokens in FINE:
            given = list(map(int, tokens))
            c.insert(tokens, c.allocate(len(given) // P))
            assert c.match_prefix(given).device_tokens == len(given)
            c.clear()
        pages = c.allocate(np.int32(2))
        assert c.insert(range(8), torch.tensor(pages), priority=-3, stream=0).inserted_tokens == 8
        assert c.evict_device(np.int64(0)) == 0 and c.drain(np.float64(5)) and c.poll(0) == 0
        c.free(np.array(c.allocate(1), dtype=np.int16))


@pytest.mark.parametrize("option", ["load_back_threshold", "host_pages", "device_pages"])
def test_an_option_that_may_be_0_says_so(option: str) -> None:
    with pytest.raises(ValueError, match=f"{option}=-1 must be 0 or more"):
        some(**{option: -1})
