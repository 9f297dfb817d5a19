"""``PageHistory`` as Python sees it; what it does is told by its tests in C++."""

from __future__ import annotations

import numpy as np
import pytest

from hicache_nsa._core import PageHistory, TokenSpan, namespace_key, page_keys

P = 4
TOKENS = TokenSpan(np.arange(5 * P + 2))
KEYS = page_keys(TOKENS, P, namespace_key(b""))


def key(page: int) -> bytes:
    return KEYS[8 * page : 8 * page + 8]


def test_each_way_out_has_its_name() -> None:
    history = PageHistory(8)
    assert (len(history), history.cached, history.capacity) == (0, 0, 8)
    history.enter(KEYS)
    assert (len(history), history.cached) == (5, 5) and history.what(key(4)) == "cached"
    history.evict(key(4))
    history.lose(key(3))
    history.fail(key(2))
    history.save_failed(key(1) + key(0))
    history.saved(key(0))
    assert history.cached == 2
    history.flush()
    history.never_came(b"unheard-")
    names = [history.what(key(page)) for page in range(5)]
    assert names == ["flushed", "failed", "failed", "flushed", "evicted"]
    assert history.what(b"unheard-") == "failed" and history.what(bytes(8)) == "unknown"
    assert history.losses(TOKENS, 0, P, namespace_key(b"")) == (1, 2, 2)
    assert history.losses(TOKENS, 2 * P, P, key(1)) == (1, 1, 1)
    assert history.losses(TOKENS, 2 * P, P, key(0)) == (0, 0, 0)
    history.check()


def test_pages_are_looked_for_up_to_the_first_unknown_one() -> None:
    """Wherever it lies, in prompts of many pages and of one: keys are looked for many at a time."""
    above, pages = namespace_key(b"lora"), 100
    tokens = TokenSpan(np.arange(1000, 1000 + pages * P + 3))
    keys = page_keys(tokens, P, above)
    history = PageHistory(pages)
    for known in range(pages + 1):
        assert history.losses(tokens, 0, P, above) == (-(-known // 2), known // 2, 0)
        for count in (0, 1, known - 1, known, known + 1):
            if 0 <= count <= pages:
                found = history.losses(tokens.slice(0, count * P + 1), 0, P, above)
                assert sum(found) == min(count, known), (known, count)
        (history.lose if known % 2 else history.evict)(keys[8 * known : 8 * known + 8])
    assert len(history) == pages
    history.enter(keys[8 * 50 : 8 * 51])  # cached, though nothing above it is: it ends there
    assert history.losses(tokens, 0, P, above) == (25, 25, 0)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="A history of 0 pages"):
        PageHistory(0)
    history = PageHistory(8)
    for call in (history.enter, history.evict, history.lose, history.fail, history.never_came):
        with pytest.raises(ValueError, match="7 bytes are no page keys"):
            call(bytes(7))
    with pytest.raises(ValueError, match="no page key in 0 bytes"):
        history.what(b"")
    with pytest.raises(ValueError, match="begin=23 is outside the 22 tokens"):
        history.losses(TOKENS, 23, P, key(0))
    with pytest.raises(ValueError, match="page_size=0"):
        history.losses(TOKENS, 0, 0, key(0))
    assert len(history) == 0
