"""The linkers of a process and what they are told."""

from __future__ import annotations

import pytest

from hicache_nsa.integrations.linking import live


class Told:
    def __init__(self, fails: bool) -> None:
        self.fails = fails
        self.times = 0

    def invalidate(self) -> None:
        self.times += 1
        if self.fails:
            raise RuntimeError("a lost device")

    def quiesce(self) -> None:
        pass


def test_new_weights_reach_every_linker_also_if_one_raises() -> None:
    linkers = [Told(fails) for fails in (False, True, False, True)]
    for linker in linkers:
        live.add(linker)
    try:
        with pytest.raises(RuntimeError, match="a lost device"):
            live.invalidate_all()
        assert [linker.times for linker in linkers] == [1] * 4
    finally:
        for linker in linkers:
            live.remove(linker)
    assert not set(linkers) & set(live.linkers())
