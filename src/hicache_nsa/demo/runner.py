"""The three runs: cold, on the warm device, and after a flush that keeps the host copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from types import TracebackType

import torch

from hicache_nsa import HiCache, HiCacheError, formats
from hicache_nsa.cuda_streams import require_torch_gpu
from hicache_nsa.demo.digests import PageDigests
from hicache_nsa.demo.engine import Engine
from hicache_nsa.demo.introduction import introduction
from hicache_nsa.demo.prompts import PromptsError, build_prompts
from hicache_nsa.demo.results import DemoResult, Run
from hicache_nsa.demo.settings import DemoSettings
from hicache_nsa.demo.sizing import PageDemand, page_demand
from hicache_nsa.demo.tokenizers import open_tokenizer
from hicache_nsa.pools import check_device
from hicache_nsa.reference import DsaConfig, ReferenceModel, allocate_pools, random_weights
from hicache_nsa.sizes import format_size, parse_size

GARBAGE = 0xEE
WARM_UP_TOKENS = 100  # torch's own start-up is no part of the first question's time
RUNS = ("cold", "device", "after_flush")


class Demo:
    """Prompts, model, pools and cache of one demo. Use as a context manager, run once.

    Model, pools and cache are on one device, where all runs on torch's current stream: that is the
    stream which copies are ordered after and which waits for them.

    Raises PromptsError or TokenizerError for input that cannot be used, ValueError for a pool size
    that does not parse or is too small for one request or one page, and HiCacheError for a device
    that is not there.
    """

    def __init__(self, settings: DemoSettings) -> None:
        if settings.threads:
            torch.set_num_threads(settings.threads)
        device = _device(settings.device)
        tokenizer = open_tokenizer(settings.tokenizer)
        self._settings = replace(settings, tokenizer=tokenizer.name)
        self._prompts = [tokenizer.encode(text) for text in build_prompts(settings.plan)]
        config = DsaConfig.demo(
            tokenizer.vocab_size,
            num_layers=settings.layers,
            kv_dtype=settings.kv_dtype,
            page_size=settings.page_size,
        )
        demand = page_demand(self._prompts, settings.page_size, settings.max_new_tokens)
        fmt = formats.dsa(settings.layers, kv_dtype=settings.kv_dtype, page_size=settings.page_size)
        _check_prompts(self._prompts, demand, settings.page_size)
        host_size = _check_pools(settings, demand, fmt.page_bytes)
        self._pools = allocate_pools(config, settings.device_pages or demand.device, device)
        self._cache = HiCache(
            fmt,
            device=device,
            device_buffers=self._pools,
            host_pages=demand.cached if host_size is None else None,
            host_size=host_size,
            layout=settings.layout,
        )
        self._digests = PageDigests(self._pools, settings.page_size)
        model = ReferenceModel(config, random_weights(config, settings.seed).to(device))
        model.prefill(self._prompts[0][:WARM_UP_TOKENS], [0, 1], allocate_pools(config, 2, device))
        self._engine = Engine(
            model,
            self._pools,
            self._cache,
            self._digests,
            settings.max_new_tokens,
        )
        self._demand = demand
        self._sizing = _explain_pools(self._cache, demand)

    @property
    def cache(self) -> HiCache:
        """The cache that serves the requests; closed at the end of the ``with`` block."""
        return self._cache

    @property
    def machine(self) -> dict[str, object]:
        """What a report says of the device: the name of the GPU, nothing of a CPU."""
        device = self._cache.device_pool.device
        return {} if device == "cpu" else {"gpu": torch.cuda.get_device_name(device)}

    @property
    def prompts(self) -> list[list[int]]:
        """Token ids of every prompt, in the order in which they are asked."""
        return self._prompts

    @property
    def introduction(self) -> list[str]:
        """Lines to show before the runs: what they are, and the sizes of the pools."""
        return [*introduction(self._settings, self._prompts), self._sizing]

    @property
    def steps(self) -> int:
        """Requests of all runs."""
        return len(RUNS) * len(self._prompts)

    def run(
        self,
        step: Callable[[str], None] = lambda label: None,
        corrupt: Callable[[HiCache], None] | None = None,
        record: bool = False,
    ) -> DemoResult:
        """Do the three runs; call ``step`` with the run's name after each request.

        ``corrupt`` is called between the flush and the last run (for tests of the proof itself).
        record: the last run on the cache's timeline, also one that ^C ended.
        ^C ends the demo early: the result covers what was done.
        """
        stats = self._cache.stats()
        settings = {
            **asdict(self._settings),
            "threads": torch.get_num_threads(),
            "device_pages": stats.device.total_pages,
            "host_pages": stats.host.total_pages,
            "page_bytes": self._cache.format.page_bytes,
        }
        device, host = stats.device.total_pages, stats.host.total_pages
        hold_all = device >= self._demand.device and host >= self._demand.cached
        result = DemoResult(settings, self._sizing, self._demand.reusable, hold_all)
        try:
            for name in RUNS:
                if name == "after_flush":
                    result.kept_host_tokens = self._flush()
                    if corrupt is not None:
                        corrupt(self._cache)
                    if record:
                        self._cache.timeline.start()
                self._answer_all(result, name, step)
        except KeyboardInterrupt:
            result.interrupted = True
        self._cache.timeline.stop()
        result.pages_compared = self._digests.pages_compared
        result.digests_compared = self._digests.digests_compared
        result.mismatches = tuple(self._digests.mismatches)
        return result

    def _answer_all(self, result: DemoResult, name: str, step: Callable[[str], None]) -> None:
        run = Run(name)
        result.runs.append(run)
        for prompt in self._prompts:
            run.answers.append(self._engine.answer(prompt))
            step(name)
        self._cache.drain()
        self._cache.check()

    def _flush(self) -> int:
        """Flush, then fill the device memory with garbage: what is right afterwards came back.

        Returns the tokens of the host copies that stay.
        """
        kept = self._cache.reset().kept_host_tokens
        for tensors in self._pools.values():
            for tensor in tensors:
                tensor.fill_(GARBAGE)
        return kept

    def __enter__(self) -> Demo:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._cache.close()


def _device(name: str) -> str:
    """``cpu`` or ``cuda:N``; HiCacheError says what is missing and what goes without."""
    try:
        device = check_device(name)
        if device != "cpu":
            require_torch_gpu(device)
    except HiCacheError as error:
        raise HiCacheError(f"{str(error).rstrip('.')}. Without a GPU: --device cpu.") from error
    return device


def _check_prompts(prompts: Sequence[Sequence[int]], demand: PageDemand, page_size: int) -> None:
    if demand.reusable == 0:
        raise PromptsError(
            f"prompts too short for a page: the longest has {max(map(len, prompts)):,} tokens, and "
            f"a page of {page_size} can come back for {page_size + 1} or more (a prompt's last "
            f"token is always computed): use more --shots or longer questions"
        )


def _check_pools(settings: DemoSettings, demand: PageDemand, page_bytes: int) -> int | None:
    """The host pool's size in bytes; None: as large as the prompts need."""
    if settings.device_pages is not None and settings.device_pages < demand.largest:
        raise ValueError(
            f"--device-pages must be at least {demand.largest}, the pages of the largest request; "
            f"got {settings.device_pages}"
        )
    if settings.host_size is None:
        return None
    host_size = parse_size(settings.host_size, "--host-size")
    if host_size < page_bytes:
        raise ValueError(
            f"--host-size must be at least {page_bytes} bytes ({format_size(page_bytes)}), "
            f"one page; got {settings.host_size}"
        )
    return host_size


def _explain_pools(cache: HiCache, demand: PageDemand) -> str:
    """One line on the two pools and what the prompts need of them."""
    stats, page_bytes = cache.stats(), cache.format.page_bytes
    device, host = stats.device.total_pages, stats.host.total_pages
    return (
        f"Pages of {cache.format.page_size} tokens, {format_size(page_bytes)} each: "
        f"device pool {device:,} ({format_size(device * page_bytes)}; the prompts need "
        f"{demand.device:,}), host pool {host:,} ({format_size(host * page_bytes)}; "
        f"{demand.cached:,} needed)."
    )
