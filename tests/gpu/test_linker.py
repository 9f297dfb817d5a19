"""The linker for SGLang over CUDA tensors shaped as its pools, without SGLang: the same scenarios
as on the CPU, with a forward stream; and what only streams can show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from kv_pools import (
    DEVICE_PAGES,
    HOST_PAGES,
    PAGE,
    DSATokenToKVPool,
    MHATokenToKVPool,
    MLATokenToKVPool,
    page_bytes,
)
from linker_scenarios import SCENARIOS, longer_prompt, prefix_outlives_suffixes, warm_flush
from linker_transfers import kv, store
from page_mirror import Mirror
from stand_in_server import StandInLinker, StandInServer

from hicache_nsa.testing import hold

Make = Callable[..., Any]


@pytest.fixture
def make_server() -> Iterator[Make]:
    """``make_server(pool, drafts=(), **config)`` on the GPU, with a stream for the forward."""
    servers: list[Any] = []

    def make(pool: Any = None, *, drafts: tuple[Any, ...] = (), **config: Any) -> Any:
        pool = pool or DSATokenToKVPool(DEVICE_PAGES, device="cuda")
        config = {"host_pages": HOST_PAGES, **config}
        stream = torch.cuda.Stream()
        linker = StandInLinker(pool, config, drafts=drafts, forward_stream=stream)
        named = {f"draft{i}_": draft for i, draft in enumerate(drafts)}
        servers.append(StandInServer(linker, pool, Mirror(**{"": pool, **named})))
        return servers[-1]

    yield make
    for server in servers:
        server.close()


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda s: s.__name__)
@pytest.mark.parametrize("io_backend", ["auto", "kernel", "direct", "staged"])
def test_scenario(scenario: Callable[[Any], None], io_backend: str, make_server: Make) -> None:
    scenario(make_server(io_backend=io_backend))


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
@pytest.mark.parametrize(
    "pool",
    [
        lambda: DSATokenToKVPool(DEVICE_PAGES, 61, sharing=(1, 3, 60), device="cuda"),
        lambda: DSATokenToKVPool(DEVICE_PAGES, row=576, device="cuda"),
        lambda: MLATokenToKVPool(DEVICE_PAGES, page_size=16, device="cuda"),
        lambda: MLATokenToKVPool(DEVICE_PAGES, page_size=1, device="cuda"),
        lambda: MHATokenToKVPool(DEVICE_PAGES, device="cuda"),
    ],
    ids=["dsa-61-shared-top-k", "dsa-576", "mla-16", "mla-1", "mha"],
)
def test_pools_and_layouts(pool: Callable[[], Any], layout: str, make_server: Make) -> None:
    warm_flush(make_server(pool(), layout=layout))


def test_f09_draft_pools_travel_with_the_target(make_server: Make) -> None:
    drafts = (
        DSATokenToKVPool(DEVICE_PAGES, 1, device="cuda"),
        MLATokenToKVPool(DEVICE_PAGES, 2, device="cuda"),
    )
    longer_prompt(make_server(DSATokenToKVPool(DEVICE_PAGES, 3, device="cuda"), drafts=drafts))


def test_a_prefix_outlives_what_is_below_it(make_server: Make) -> None:
    prefix_outlives_suffixes(make_server())


def test_f02_an_offload_waits_for_the_forward_stream(make_server: Make) -> None:
    """The forward is behind a kernel that spins; the offload is queued beside it, 20 times."""
    server = make_server()
    forward = server.linker.forward_stream
    for n in range(20):
        key = f"{n:064x}"
        page = 1 + n % DEVICE_PAGES
        written = [
            (tensor, page_bytes(key, name, layer, tensor.shape[1]).to("cuda"))
            for name, tensors in server.mirror.buffers.items()
            for layer, tensor in enumerate(tensors)
        ]
        torch.cuda.synchronize()
        with torch.cuda.stream(forward):
            torch.cuda._sleep(20_000_000)
            for tensor, wanted in written:
                tensor[page].copy_(wanted)
        assert server.linker.offload(kv([key], [page]))
        server.linker.quiesce()
        assert server.linker.num_completed_offloads() == 1
        assert server.linker.pop_completed_offload() is True
        torch.cuda.synchronize()
        server.mirror.poison([page])
        server.linker.load("x", kv([key], [page]))
        server.mirror.expect(page, key)
        assert server.linker.finish_layer_wise_loading(server.linker.start_layer_wise_loading())
        assert server.mirror.wrong_bytes([page]) == []
        server.mirror.poison([page])


def test_a_stream_waits_for_its_layer_and_the_host_does_not(make_server: Make) -> None:
    """``wait_until`` holds the current stream back while the copy is held, not its caller."""
    server = make_server()
    keys = store(server)
    counter = server.linker.layer_done_counter
    stream = server.linker.forward_stream
    with hold(server.linker.engine, "h2d"):
        server.linker.load("x", kv(keys, [5, 6, 7, 8]))
        index = server.linker.start_layer_wise_loading()
        counter.set_consumer(index)
        with torch.cuda.stream(stream):
            counter.wait_until(counter.num_layers - 1)
            copied = server.mirror.buffers["index_k"][2][5:9].clone()
            done = torch.cuda.Event()
            done.record(stream)
        assert not done.query()  # we came here: the host was not kept
    done.synchronize()
    for row, key in enumerate(keys):
        want = page_bytes(key, "index_k", 2, copied.shape[1])
        assert torch.equal(copied[row].cpu(), want)
    assert server.linker.finish_layer_wise_loading(index)
    for page, key in zip([5, 6, 7, 8], keys, strict=True):
        server.mirror.expect(page, key)
    server.check()


def test_a_load_waits_for_what_its_caller_has_queued(make_server: Make) -> None:
    """Slots that the scheduler's stream still writes are not overtaken by the load into them."""
    server = make_server()
    keys = store(server)
    filler = torch.full_like(server.mirror.buffers["latent"][0][0], 0x11)
    torch.cuda._sleep(50_000_000)
    for page in (5, 6, 7, 8):
        server.mirror.buffers["latent"][0][page].copy_(filler)
    server.linker.load("x", kv(keys, [5, 6, 7, 8]))
    assert server.linker.finish_layer_wise_loading(server.linker.start_layer_wise_loading())
    for page, key in zip([5, 6, 7, 8], keys, strict=True):
        server.mirror.expect(page, key)
    torch.cuda.synchronize()
    server.check()


def test_tensors_on_a_gpu_have_its_index(make_server: Make) -> None:
    assert make_server().linker.engine.device_pool.device == "cuda:0"
    assert PAGE == 64
