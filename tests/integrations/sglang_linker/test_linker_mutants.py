"""Broken linkers must not get through the scenarios: neither ours nor those with SGLang."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import linker_scenarios as scenarios
import pytest
from page_mirror import Mirror

from hicache_nsa.integrations.linking import device_buffers
from hicache_nsa.integrations.linking.core import LinkerCore
from hicache_nsa.integrations.linking.layer_counter import LayerCounter
from hicache_nsa.integrations.linking.loads import Loads
from hicache_nsa.integrations.linking.offloads import Offloads
from hicache_nsa.page_index import PageIndex
from hicache_nsa.transfer import TransferEngine

Patch = pytest.MonkeyPatch


def on_submit(patch: Patch, direction: str, change: Callable[..., Any]) -> None:
    """Change host and device pages of every copy of that direction."""
    submit = TransferEngine.submit

    def changed(self: Any, way: str, host: Any, device: Any, *more: Any, **named: Any) -> Any:
        if way == direction:
            host, device = change(host, device)
        return submit(self, way, host, device, *more, **named)

    patch.setattr(TransferEngine, "submit", changed)


def host_pages_swapped(patch: Patch) -> None:
    on_submit(patch, "h2d", lambda host, device: (host[::-1].copy(), device))


def device_pages_shifted(patch: Patch) -> None:
    on_submit(patch, "h2d", lambda host, device: (host, device + 1))


def the_page_before(patch: Patch) -> None:
    on_submit(patch, "h2d", lambda host, device: ((host - 1).clip(0), device))


def saves_swapped(patch: Patch) -> None:
    on_submit(patch, "d2h", lambda host, device: (host, device[::-1].copy()))


def no_indexer(patch: Patch) -> None:
    name, read = device_buffers.KINDS["dsa"]
    patch.setitem(device_buffers.KINDS, "dsa", (name, lambda pool: read(pool)[:1]))


def index_keys_zeroed(patch: Patch) -> None:
    finish = Loads.finish

    def zeroed(self: Any, batch: int) -> bool:
        landed = finish(self, batch)
        for tensor in self._engine.device_pool.buffers["index_k"]:
            tensor[1:4] = 0
        return landed

    patch.setattr(Loads, "finish", zeroed)


def layers_not_awaited(patch: Patch) -> None:
    patch.setattr(LayerCounter, "wait_until", lambda self, layer: None)


def failures_ignored(patch: Patch) -> None:
    finish = Loads.finish
    patch.setattr(Loads, "finish", lambda self, batch: finish(self, batch) or True)


def failed_saves_published(patch: Patch) -> None:
    finish = PageIndex.finish_store
    patch.setattr(PageIndex, "finish_store", lambda self, keys, _: finish(self, keys, True))


def completions_overtake(patch: Patch) -> None:
    def poll(self: Any) -> None:
        for offload in [o for o in self._running if self._has_ended(o)]:
            self._running.remove(offload)
            self._take_in(offload)
            self._ended.append(offload)

    patch.setattr(Offloads, "poll", poll)


def host_pages_dropped(patch: Patch) -> None:
    reset = LinkerCore.reset

    def dropping(self: Any) -> None:
        reset(self)
        self.index.reset()

    patch.setattr(LinkerCore, "reset", dropping)


MUTANTS = [
    (host_pages_swapped, scenarios.warm_flush),
    (device_pages_shifted, scenarios.warm_flush),
    (the_page_before, scenarios.warm_flush),
    (saves_swapped, scenarios.warm_flush),
    (no_indexer, scenarios.warm_flush),
    (index_keys_zeroed, scenarios.warm_flush),
    (layers_not_awaited, scenarios.layer_by_layer),
    (failures_ignored, scenarios.failed_load),
    (failed_saves_published, scenarios.failed_offload),
    (completions_overtake, scenarios.first_in_first_out),
    (host_pages_dropped, scenarios.warm_flush),
]
with_sglang = pytest.mark.skipif(
    find_spec("sglang") is None, reason="SGLang isn't installed; `make test-sglang` has it"
)


@pytest.fixture(params=["stand_in", pytest.param("sglang", marks=with_sglang)])
def server(request: pytest.FixtureRequest) -> Iterator[Callable[[], Any]]:
    name = "make_server" if request.param == "stand_in" else "make_sglang_server"
    return request.getfixturevalue(name)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("mutant", "scenario"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS]
)
def test_mutant_fails(
    mutant: Callable[[Patch], None],
    scenario: Callable[[Any], None],
    server: Callable[[], Any],
    monkeypatch: Patch,
) -> None:
    mutant(monkeypatch)
    with pytest.raises(AssertionError):
        scenario(server())


def test_the_mirror_sees_a_single_byte(make_server: Callable[..., Any]) -> None:
    server = make_server()
    server.mirror.write(3, "a key")
    server.check()
    server.mirror.buffers["index_k"][1][3, 77] ^= 1
    assert server.mirror.wrong_bytes([3]) == ["index_k layer 1 page 3: 1 of 8448"]
    assert isinstance(server.mirror, Mirror)
