"""Random work with partial loads, requests that are cancelled, and pins; every byte is checked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from engine import PAGE, Engine, Request

import hicache_nsa as hc

STEPS = 400


class LoadsEngine(Engine):
    """Brings part of what is on host, gives requests up, pins prefixes for some steps."""

    def __init__(self, seed: int, **options) -> None:
        self.now = 0
        self.pins: list[hc.Pin] = []
        super().__init__(seed, clock=lambda: self.now, pin_share=0.4, **options)

    def more_steps(self) -> dict[Callable[[], None], int]:
        return {self.give_up: 4, self.pin: 3, self.unpin: 1}

    def step(self) -> str:
        self.now += 1
        return super().step()

    def bring(self, match: hc.PrefixMatch) -> hc.LoadBack | None:
        if self.rng.random() < 0.4:
            return super().bring(match)
        limit = self.rng.randrange(1, 32)
        load = self.cache.load_back(match, max_tokens=limit)
        assert load is None or PAGE <= load.tokens <= min(limit, match.host_tokens)
        return load

    def give_up(self) -> None:
        """A request is aborted, most often before its load is in."""
        if self.requests:
            request = self.requests[-1] if self.rng.random() < 0.7 else self.requests[0]
            if request.load is not None:
                request.load.cancel()
            self.close_request(request)

    def end_load(self, request: Request) -> None:
        if request.load is not None and self.rng.random() < 0.2:
            request.load.cancel()
        super().end_load(request)

    def pin(self) -> None:
        tokens, namespace = self.some_tokens()
        match = self.match(tokens, namespace, count=False)
        before = self.cache.stats()
        budgets = [int(0.4 * tier.total_pages) for tier in (before.device, before.host)]
        try:
            pin = self.cache.pin(match, self.rng.randrange(1, 40))
        except hc.OutOfPages:
            now = self.cache.stats()
            assert now.device.pinned_pages == before.device.pinned_pages
            assert now.host.pinned_pages == before.host.pinned_pages
            return
        assert pin.tokens == match.tokens
        now = self.cache.stats()
        if pin.device_tokens:
            assert now.device.pinned_pages <= budgets[0]
        if pin.host_tokens:
            assert now.host.pinned_pages <= budgets[1]
        self.pins.append(pin)

    def unpin(self) -> None:
        if self.pins:
            self.pins.pop(self.rng.randrange(len(self.pins))).release()

    def end(self) -> None:
        self.now += 1000
        self.cache.poll(0)
        assert not any(pin.active for pin in self.pins)
        super().end()


@pytest.mark.parametrize("acks", ["auto", "poll"])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("device_pages", "host_pages"), [(24, 40), (14, 10), (40, 12)])
def test_random_loads(seed: int, device_pages: int, host_pages: int, acks: str) -> None:
    engine = LoadsEngine(seed, device_pages=device_pages, host_pages=host_pages, acks=acks)
    for _ in range(STEPS):
        engine.step()
    engine.end()
