"""The ends: limits of waiting, close, fork, and engines that nobody closed."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest
from case_bytes import contents, host_holds
from case_cache import FORMAT, LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import fail_next, hold

A, B = list(range(8)), list(range(100, 108))


# -- limits --------------------------------------------------------------------------------------


def test_drain_and_wait_return_false_at_the_limit():
    with CaseCache(16, 32) as c:
        c.put_on_host(A)
        with hold(c.cache, "h2d"), hold(c.cache, "d2h"):
            load = c.start_load(A)
            c.put(B)
            for wait in (load.wait, c.cache.drain):
                for limit in (0, 0.05):
                    before = time.monotonic()
                    assert wait(limit) is False
                    assert limit <= time.monotonic() - before < limit + 1
        assert load.wait(LONG) is True and load.wait() is True and load.wait(0) is True
        assert c.drain(LONG) is True and c.drain() is True and c.drain(0) is True
        c.release(load)


@pytest.mark.parametrize("acks", ["auto", "poll"])
def test_drain_keeps_its_limit_when_a_later_copy_has_ended_already(acks):
    """With polled acks the finished load stands behind the save that is held."""
    with CaseCache(32, 32, acks=acks) as c:
        c.put_on_host(A)
        with hold(c.cache, "d2h"):
            c.put(B)
            load = c.start_load(A)
            assert load.wait(LONG)
            ended = []
            thread = threading.Thread(target=lambda: ended.append(c.cache.drain(0.1)), daemon=True)
            thread.start()
            thread.join(5)
            assert ended == [False]
        assert c.drain(LONG)
        c.release(load)


def test_waiting_can_be_interrupted():
    """^C reaches a caller that waits for a copy; the wait is no deaf one in C++."""
    code = """
        import os, signal, threading
        import hicache_nsa as hc
        from hicache_nsa.testing import hold
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the background ignores it
        cache = hc.HiCache(hc.formats.dsa(2, page_size=4), device_pages=4, host_pages=4)
        with hold(cache, "d2h"):
            cache.insert(range(8), cache.allocate(2))
            threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
            try:
                cache.drain()
            except KeyboardInterrupt:
                print("interrupted")
        cache.close()
    """
    assert run(code).stdout == "interrupted\n"


# -- close ---------------------------------------------------------------------------------------

CALLS = {
    "match_prefix": lambda c, x: c.match_prefix(A),
    "load_back": lambda c, x: c.load_back(x["match"]),
    "allocate": lambda c, x: c.allocate(1),
    "free": lambda c, x: c.free(x["pages"]),
    "insert": lambda c, x: c.insert(A, x["pages"]),
    "lock": lambda c, x: c.lock(x["match"]),
    "pin": lambda c, x: c.pin(x["match"], 1.0),
    "unlock": lambda c, x: c.unlock(x["handle"]),
    "evict_device": lambda c, x: c.evict_device(4),
    "evict_host": lambda c, x: c.evict_host(4),
    "poll": lambda c, x: c.poll(),
    "drain": lambda c, x: c.drain(),
    "digest": lambda c, x: c.digest(),
    "ready": lambda c, x: c.ready(),
    "reset": lambda c, x: c.reset(),
    "clear": lambda c, x: c.clear(),
    "invalidate": lambda c, x: c.invalidate(),
    "stats": lambda c, x: c.stats(),
    "observe": lambda c, x: c.observe(),
    "record_events": lambda c, x: c.record_events(),
    "check": lambda c, x: c.check(),
}


def used_cache() -> tuple[hc.HiCache, dict]:
    cache = hc.HiCache(FORMAT, device_pages=8, host_pages=8)
    cache.insert(A, cache.allocate(2))
    assert cache.drain(LONG)
    cache.evict_device(4)
    match = cache.match_prefix(A)
    extras = {"match": match, "pages": cache.allocate(2), "handle": cache.lock(match)}
    return cache, extras


@pytest.mark.parametrize("name", CALLS)
def test_after_close_every_method_raises_at_once(name):
    cache, extras = used_cache()
    load, other = cache.load_back(extras["match"]), cache.load_back(extras["match"])
    pin = cache.pin(extras["match"], 60)
    cache.close()
    cache.close()
    with pytest.raises(hc.HiCacheError, match="closed"):
        CALLS[name](cache, extras)
    load.release()  # no pages, no locks: nothing to do
    other.cancel()
    assert not pin.active
    pin.release()
    assert load.done() and load.error is None and load.wait(0)
    with pytest.raises(hc.HiCacheError):
        fail_next(cache, "h2d")


def test_every_public_method_is_in_the_list():
    names = [n for n in dir(hc.HiCache) if not n.startswith("_")]
    public = {n for n in names if callable(getattr(hc.HiCache, n))}
    assert public == {*CALLS, "close"}


def test_with_closes_also_after_an_error():
    with pytest.raises(KeyError), hc.HiCache(FORMAT, device_pages=4, host_pages=4) as cache:
        raise KeyError
    with pytest.raises(hc.HiCacheError):
        cache.stats()


def test_close_finishes_copies_and_opens_the_gates():
    cache = hc.HiCache(FORMAT, device_pages=8, host_pages=8)
    host = cache.host_pool
    view = host.view()  # keeps the mapping
    pages = cache.allocate(2)
    for i, page in enumerate(pages):
        for buffer in FORMAT.buffers:
            for array in cache.device_pool.buffers[buffer.name]:
                array[page] = i + 1
    with hold(cache, "d2h"):
        cache.insert(A, pages)
        before = time.monotonic()
        cache.close()
        assert time.monotonic() - before < 5
    assert int((view != 0).sum()) == 2 * FORMAT.page_bytes


def test_close_with_an_insert_behind_a_load():
    """What the end of the load would start must not be in the way of the end of the cache."""
    c = CaseCache(16, 32)
    c.put_on_host(A)
    with hold(c.cache, "h2d"):
        load = c.start_load(A)
        pages = np.concatenate([load.pages, c.allocate(1)])
        result = c.insert([*A, 1, 2, 3, 4], pages, lock=True)
        assert result.inserted_tokens == 4
        c.close()
    with pytest.raises(hc.HiCacheError, match="closed"):
        c.cache.stats()
    with pytest.raises(hc.HiCacheError, match="closed"):
        _ = c.cache.host_pool.memory  # released


def test_close_lets_go_of_memory_and_tensors():
    tensors = {
        b.name: [np.zeros((4, b.page_bytes), np.uint8) for _ in b.layers] for b in FORMAT.buffers
    }
    gone = weakref.ref(tensors["latent"][0])
    cache = hc.HiCache(FORMAT, device_buffers=tensors, host_pages=4)
    del tensors
    gc.collect()
    assert gone() is not None
    cache.close()
    gc.collect()
    assert gone() is None


def test_a_view_of_the_host_pool_outlives_the_cache():
    c = CaseCache(8, 8)
    c.put(A)
    assert c.drain(LONG)
    pool = c.cache.host_pool
    c.evict_device(8)
    page = int(c.match_prefix(A).host_pages[0])
    view = pool.page_view("latent", 0, page)
    kept = view.copy()
    assert host_holds(pool, page, contents(A, 4)[0])
    c.close()
    del c, pool
    gc.collect()
    assert np.array_equal(view, kept)


# -- nobody closed it ----------------------------------------------------------------------------


def run(code: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return done


UNCLOSED = """
    import numpy as np
    import hicache_nsa as hc
    fmt = hc.formats.dsa(8)
    device, host = hc.DevicePool(fmt, pages=200), hc.HostPool(fmt, pages=200)
    engine = hc.TransferEngine(device, host)
    pages = np.arange(200)
    engine.{hold}
    ticket = engine.save(pages, pages)
    {end}
    print("end")
"""


@pytest.mark.parametrize("hold_", ["hold('d2h')", "in_flight('d2h')"], ids=["held", "running"])
@pytest.mark.parametrize(
    "end",
    ["del device, host, engine; assert ticket.done() and ticket.error is None", "pass"],
    ids=["dropped", "left at exit"],
)
def test_an_engine_that_nobody_closed_does_not_outlive_its_pools(hold_, end):
    """Its copies would go on in memory that was given back."""
    assert run(UNCLOSED.format(hold=hold_, end=end)).stdout == "end\n"


def test_a_cache_that_nobody_closed_ends_with_its_copies():
    run("""
        import hicache_nsa as hc
        cache = hc.HiCache(hc.formats.dsa(8), device_pages=200, host_pages=200)
        cache.engine.hold("d2h")
        result = cache.insert(range(200 * 64), cache.allocate(200), lock=True)
    """)


# -- fork ----------------------------------------------------------------------------------------


def in_child(function) -> int:
    """Run ``function`` in a forked child; its exit status: 0 for a true result."""
    pid = os.fork()
    if pid == 0:
        try:
            ok = function()
        except BaseException:
            ok = False
        os._exit(0 if ok else 1)
    limit = time.monotonic() + LONG
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status
        if time.monotonic() > limit:
            os.kill(pid, 9)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.01)


def raises(call) -> bool:
    try:
        call()
    except hc.HiCacheError:
        return True
    return False


def test_a_forked_child_hears_it_at_once_and_the_parent_goes_on():
    cache, extras = used_cache()
    with hold(cache, "h2d"):
        load = cache.load_back(extras["match"])

        def child():
            refused = [raises(lambda f=f: f(cache, extras)) for f in CALLS.values()]
            waits = [load.done, load.wait, lambda: load.error, lambda: load.wait_layer(0)]
            refused += [raises(wait) for wait in waits]
            refused += [raises(cache.engine.check), raises(lambda: fail_next(cache, "h2d"))]
            load.release()
            cache.close()
            return all(refused)

        assert in_child(child) == 0
    assert load.wait(LONG)
    load.release()
    cache.unlock(extras["handle"])
    cache.check()
    cache.close()


def test_a_fork_while_another_thread_holds_the_lock_leaves_no_deadlock():
    cache, extras = used_cache()
    gate = hold(cache, "d2h")
    gate.__enter__()
    cache.insert([7, 7, 7, 7], extras["pages"][:1])
    thread = threading.Thread(target=cache.reset)  # waits with the cache's lock
    thread.start()
    time.sleep(0.05)
    try:
        assert (
            in_child(lambda: all(raises(lambda f=f: f(cache, extras)) for f in CALLS.values())) == 0
        )
        assert in_child(lambda: cache.close() is None) == 0
    finally:
        gate.__exit__(None, None, None)
        thread.join(LONG)
    assert cache.match_prefix([7, 7, 7, 7]).host_tokens == 4
    cache.close()


def test_a_child_ends_cleanly_with_the_parents_cache_in_it():
    run("""
        import os, sys
        import hicache_nsa as hc
        from hicache_nsa.testing import hold
        cache = hc.HiCache(hc.formats.dsa(2, page_size=4), device_pages=8, host_pages=8)
        with hold(cache, "d2h"):
            cache.insert(range(8), cache.allocate(2))
            pid = os.fork()
            if pid == 0:
                sys.exit(0)  # with destructors and all
            assert os.waitpid(pid, 0)[1] == 0
        assert cache.drain(30)
        child = os.fork()
        if child == 0:
            with hc.HiCache(hc.formats.dsa(2, page_size=4), device_pages=8, host_pages=8) as own:
                own.insert(range(8), own.allocate(2))
                assert own.drain(30)
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """)
