"""The plugin on SGLang's weight updates and match, loaded by SGLang through our entry point."""

from __future__ import annotations

import logging
import pkgutil
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from linker_scenarios import prefix_outlives_suffixes
from served_request import Served

pytest.importorskip("sglang.srt", reason="SGLang isn't installed; `make test-sglang` has it")

from sglang.srt import plugins
from sglang.srt.plugins.hook_registry import HookRegistry

from hicache_nsa.integrations.sglang import hooks, invalidate_all
from hicache_nsa.testing import hold

TOKENS = list(range(4 * 64))


@pytest.fixture
def plugged() -> Iterator[None]:
    """Our plugin as SGLang loads it at the start of each process; undone afterwards."""
    owners = [pkgutil.resolve_name(name) for name in (hooks.MANAGER, hooks.WRAPPER)]
    before = [(owner, dict(vars(owner))) for owner in owners]
    plugins._plugins_loaded = False
    plugins.load_plugins()
    yield
    HookRegistry.reset()
    for owner, members in before:
        for name, member in members.items():
            if vars(owner)[name] is not member:
                setattr(owner, name, member)


def manager(server: Any, update: Callable[[], tuple[bool, str]], flushes: bool = True) -> Any:
    """SGLang's manager of weight updates over one fake runner; a flush is the server's."""
    made = object.__new__(pkgutil.resolve_name(hooks.MANAGER))
    updater = SimpleNamespace(update_weights_from_disk=lambda *_, **__: update())
    runner = SimpleNamespace(weight_updater=updater)
    made.tp_worker = SimpleNamespace(weight_update_runners=lambda: [("target", runner)])
    made.draft_worker = None
    made.metrics_collector = None
    made.scheduler = SimpleNamespace(
        record_weight_version_change=lambda **_: None,
        _engine_paused=False,
        disaggregation_mode=None,
    )

    def flush_cache(**_: Any) -> bool:
        if flushes:
            server.flush()
        return flushes

    made.flush_cache = flush_cache
    return made


REQUEST = SimpleNamespace(
    model_path="new", load_format=None, recapture_cuda_graph=False, weight_version="2",
    flush_cache=True, torch_empty_cache=False,
)  # fmt: skip


def stored(server: Any) -> Any:
    assert server.serve(TOKENS) == Served(0, 0, 4)
    assert server.settle() == [True]
    return server


def test_f12_new_weights_drop_host_pages(
    plugged: None, make_sglang_server: Callable[..., Any]
) -> None:
    assert hooks.missing_hooks() == []
    server = stored(make_sglang_server(keep_on_flush="auto"))
    server.flush()
    assert server.serve(TOKENS) == Served(0, 4, 0)  # a flush alone keeps them
    server.settle()
    assert manager(server, lambda: (True, "")).update_weights_from_disk(REQUEST).success
    stats = server.linker.stats()
    assert (stats.host.hit_pages, stats.invalidations, stats.suspended) == (0, 1, False)
    assert server.serve(TOKENS) == Served(0, 0, 4)
    assert server.settle() == [True]


def test_f12_without_a_flush_nothing_is_stored_until_the_next_one(
    plugged: None, make_sglang_server: Callable[..., Any]
) -> None:
    """Requests that go on over a change of weights mix old and new KV on the device."""
    server = stored(make_sglang_server(keep_on_flush="auto"))
    updated = manager(server, lambda: (True, ""), flushes=False).update_weights_from_disk(REQUEST)
    assert not updated.success
    assert server.linker.stats().suspended
    more = TOKENS + list(range(64))
    assert server.serve(more) == Served(4, 0, 1)
    assert server.settle() == [False]
    server.flush()
    assert server.serve(more) == Served(0, 0, 5)
    assert server.settle() == [True]


def test_f12_an_update_in_several_calls_ends_clean(
    plugged: None, make_sglang_server: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Begin, update and flush, end: nobody was served in between, so nothing stays suspended."""
    server = stored(make_sglang_server(keep_on_flush="auto"))
    made = manager(server, lambda: (True, ""))
    monkeypatch.setattr(torch.distributed, "barrier", lambda **_: None)
    updater = made.tp_worker.weight_update_runners()[0][1].weight_updater
    updater.begin_weight_update = lambda: None
    updater.end_weight_update = lambda **_: None
    made.tp_cpu_group, made._session = None, None
    assert made.begin_weight_update(SimpleNamespace(selector="all")).success
    assert made.update_weights_from_disk(REQUEST).success
    assert made.end_weight_update(SimpleNamespace()).success
    stats = server.linker.stats()
    assert (stats.invalidations, stats.suspended, stats.host.hit_pages) == (2, False, 0)
    assert server.serve(TOKENS) == Served(0, 0, 4)
    assert server.settle() == [True]


def test_f12_an_update_that_fails_halfway_drops_host_pages(
    plugged: None, make_sglang_server: Callable[..., Any]
) -> None:
    def half() -> tuple[bool, str]:
        raise OSError("half of the shards")

    server = stored(make_sglang_server(keep_on_flush="auto"))
    with pytest.raises(OSError, match="half"):
        manager(server, half).update_weights_from_disk(REQUEST)
    assert server.linker.stats().host.hit_pages == 0


def test_without_the_hooks_a_flush_drops_host_pages_and_start_says_so(
    make_sglang_server: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert "update_weights_from_disk" in hooks.missing_hooks()
    with caplog.at_level(logging.WARNING):
        server = stored(make_sglang_server(keep_on_flush="auto"))
    assert "a flush drops host pages" in caplog.text
    server.flush()
    assert server.serve(TOKENS) == Served(0, 0, 4)
    server.settle()


def test_invalidate_all_reaches_every_linker(make_sglang_server: Callable[..., Any]) -> None:
    server = stored(make_sglang_server())
    assert invalidate_all() >= 1
    assert server.linker.stats().host.hit_pages == 0
    assert server.linker.stats().suspended
    server.linker.close()
    assert server.linker not in hooks.live.linkers()


def test_copies_end_before_memory_is_released(
    plugged: None, make_sglang_server: Callable[..., Any]
) -> None:
    """SGLang unmaps its KV pool before it flushes; ours is the first to know."""
    server = make_sglang_server(keep_on_flush="auto")
    made = manager(server, lambda: (True, ""))
    paused: list[int] = []
    made.is_fully_idle = lambda **_: True
    made.offload_tags = set()
    made.memory_saver_adapter = SimpleNamespace(
        pause=lambda tag: paused.append(server.linker.engine.in_flight("d2h"))
    )
    release = SimpleNamespace(tags=["kv_cache"])
    with hold(server.linker.engine, "d2h"):
        server.serve(TOKENS)
        thread = threading.Thread(target=lambda: made.release_memory_occupation(release))
        thread.start()
        thread.join(0.1)
        assert paused == []  # it waits for the copy that is held
    thread.join(30)
    assert paused == [0]
    assert server.linker.stats().stored_pages == 4


def test_a_prefix_outlives_what_is_below_it(
    plugged: None, make_sglang_server: Callable[..., Any]
) -> None:
    prefix_outlives_suffixes(make_sglang_server(keep_on_flush="auto"))


def test_without_the_hook_on_match_the_prefix_goes_first(
    make_sglang_server: Callable[..., Any],
) -> None:
    """What the hook is for: this fails as soon as SGLang says itself what is above a tail."""
    with pytest.raises(AssertionError):
        prefix_outlives_suffixes(make_sglang_server())
