"""F40, F41, F49: eviction frees what was asked for, and the counters say what was freed."""

from __future__ import annotations

import pytest
from case_cache import LONG, CaseCache

import hicache_nsa as hc
from hicache_nsa.testing import hold


def prompts(count: int, length: int) -> list[list[int]]:
    return [list(range(100 * i, 100 * i + length)) for i in range(count)]


def test_f40_a_host_tier_smaller_than_the_device_goes_on_saving():
    """write_through, D=64, H=16, P=4: four sequences of 16, poll after each."""
    with CaseCache(64, 16) as c:
        for prompt in prompts(4, 16):
            c.put(prompt)
            assert sum(c.host) == 16
            assert c.drain(LONG)
            assert c.host == (0, 16, 0, 0) and c.host_is(prompt)
        assert c.evict_device(64) == 64
        assert [c.hit(p) for p in prompts(4, 16)] == [(0, 0)] * 3 + [(0, 16)]
        stats = c.stats()
        assert (stats.saved_tokens, stats.refused_save_tokens) == (64, 0)
        assert (stats.evicted_host_tokens, stats.dropped_tokens) == (48, 48)


def test_f40_a_prompt_longer_than_the_host_tier_saves_its_head():
    (prompt,) = prompts(1, 32)
    with CaseCache(64, 16) as c:
        c.put(prompt)
        assert c.drain(LONG) and c.stats().refused_save_tokens == 16
        assert c.evict_device(64) == 32
        assert c.hit(prompt) == (0, 16) and c.host_is(prompt[:16])


def test_f41_a_save_reclaims_only_what_is_missing():
    """P=4, H=16: host-only leaves 4+4+4, fh=4; a save of 8 evicts the oldest leaf only."""
    leaves = prompts(3, 4)
    new = list(range(1000, 1008))
    with CaseCache(32, 16) as c:
        c.put_on_host(*leaves)
        assert c.host.free == 4
        c.put(new)
        assert c.drain(LONG)
        assert c.stats().evicted_host_tokens == 4
        assert [c.hit(p, count=False) for p in leaves] == [(0, 0), (0, 4), (0, 4)]
        assert c.host == (0, 16, 0, 0) and c.host_is(new)


def test_f41_eviction_ends_with_the_true_total():
    with CaseCache(32, 16) as c:
        c.put_on_host(*prompts(3, 4))
        c.put(range(1000, 1004))
        assert c.drain(LONG)
        assert c.evict_host(1000) == 16
        assert c.host.free == 16 and c.evict_host(1) == 0
        assert c.evict_device(10**30) == 4


def test_f41_nothing_is_evicted_while_all_is_locked():
    leaves = prompts(4, 4)
    with CaseCache(32, 16) as c:
        c.put_on_host(*leaves)
        locks = [c.lock(c.match_prefix(p)) for p in leaves]
        assert c.host == (0, 0, 16, 0)
        assert c.evict_host(1) == 0 and c.evict_host(1000) == 0
        c.put(range(1000, 1008))  # no room: refused, not forced
        assert c.drain(LONG) and c.stats().refused_save_tokens == 8
        for lock in locks:
            c.unlock(lock)
        assert c.evict_host(1) == 4


def test_f41_allocation_evicts_only_the_shortfall():
    with CaseCache(16, 32) as c:
        for prompt in prompts(3, 4):
            c.put(prompt)
        assert c.drain(LONG) and c.device == (4, 12, 0, 0)
        pages = c.allocate(2)
        assert c.device == (0, 8, 0, 8)
        assert [c.hit(p, count=False) for p in prompts(3, 4)] == [(0, 4), (4, 0), (4, 0)]
        c.free(pages)


def test_f41_an_allocation_that_cannot_be_met_changes_nothing():
    with CaseCache(16, 32) as c:
        c.put(range(8))
        lock = c.lock(c.match_prefix(range(4)))
        mine = c.allocate(1)
        assert c.drain(LONG)
        before = (c.device, c.host, c.hit(range(8), count=False))
        with pytest.raises(hc.OutOfPages, match=r"3 device pages wanted.*1 of 4 are free.*1 evict"):
            c.allocate(3)
        assert (c.device, c.host, c.hit(range(8), count=False)) == before
        assert len(c.allocate(2)) == 2
        c.unlock(lock)
        c.free(mine)


def test_f49_evicted_tokens_are_counted_in_tokens():
    """P=4: leaves 4+4+4, evict_d(10): 12 tokens went."""
    with CaseCache(16, 16) as c:
        for prompt in prompts(3, 4):
            c.put(prompt)
        assert c.drain(LONG)
        assert c.evict_device(10) == 12
        stats = c.stats()
        assert (stats.evicted_device_tokens, stats.evicted_host_tokens) == (12, 0)
        assert stats.dropped_tokens == 0
        assert c.evict_host(5) == 8
        stats = c.stats()
        assert (stats.evicted_device_tokens, stats.evicted_host_tokens) == (12, 8)
        assert stats.dropped_tokens == 8


def test_f49_a_declined_load_is_no_hit_and_an_accepted_one_is():
    """Prompt 40 with 8 on the device and 24 on host."""
    prompt = list(range(40))
    with CaseCache(64, 64) as c:
        c.put_on_host(prompt[:32])
        load = c.start_load(prompt[:8])
        assert load.wait(LONG) and c.poll() == 1
        c.release(load)
        base = c.stats()
        taken = c.allocate(9)  # fd = 20, less than 24; ev = 8 belong to the match
        match = c.match_prefix(prompt)
        assert (match.device_tokens, match.host_tokens, match.storage_tokens) == (8, 24, 0)
        assert match.tokens == 32 <= len(prompt)
        assert c.load_back(match) is None
        stats = c.stats()
        assert stats.matched_host_tokens == base.matched_host_tokens
        assert stats.load_back_tokens == base.load_back_tokens
        assert stats.declined_loads == base.declined_loads + 1
        assert stats.matched_device_tokens == base.matched_device_tokens + 8
        assert stats.requested_tokens == base.requested_tokens + 40
        assert stats.found_host_tokens == base.found_host_tokens + 24  # found, not loaded
        assert stats.missed_cold_tokens == base.missed_cold_tokens + 8
        c.free(taken)
        load = c.start_load(prompt)
        assert load.wait(LONG) and c.poll() == 1
        c.release(load)
        stats = c.stats()
        assert stats.matched_host_tokens - base.matched_host_tokens == 24
        assert stats.load_back_tokens - base.load_back_tokens == 24
        assert stats.load_back_bytes - base.load_back_bytes == 6 * c.format.page_bytes
        tail = c.compute_tail(prompt, 32)
        pages = [*c.match_prefix(prompt[:32], count=False).device_pages, *tail]
        assert c.insert(prompt, pages).inserted_tokens == 8
        assert c.stats().inserted_tokens == base.inserted_tokens + 8  # computed: each token once


def test_f49_a_look_without_count_is_no_hit():
    with CaseCache(16, 16) as c:
        c.put(range(8))
        c.hit(range(8), count=False)
        assert c.stats().matched_device_tokens == 0
        c.hit(range(8))
        assert c.stats().matched_device_tokens == 8


def test_f49_counters_never_fall():
    def totals():
        return {
            name: value
            for name, value in vars(c.stats()).items()
            if isinstance(value, int) and not name.endswith("_in_flight")
        }

    a = list(range(16))
    with CaseCache(32, 32) as c:
        c.put_on_host(a)
        with hold(c.cache, "h2d"):
            load = c.start_load(a)
            c.hit(a)
        assert load.wait(LONG)
        c.put(a)
        c.release(load)
        before = totals()
        assert before["saved_tokens"] == before["load_back_tokens"] == 16
        assert before["duplicate_tokens"] == 16
        for flush in (c.reset, c.clear, c.invalidate, c.reset):
            flush()
            after = totals()
            assert all(after[name] >= value for name, value in before.items())
            before = after
        assert before["dropped_tokens"] == 16
