"""Transfers as SGLang hands them to a linker, and a prompt that is on the host only."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from kv_pools import PAGE
from linker_scenarios import prompt
from stand_in_server import page_hashes


def kv(keys: list[str], pages: list[int] | None = None) -> list[Any]:
    slots = None
    if pages is not None:
        slots = (torch.tensor(pages).reshape(-1, 1) * PAGE + torch.arange(PAGE)).reshape(-1)
    return [SimpleNamespace(name="kv", keys=keys, device_indices=slots)]


def store(server: Any, pages: int = 4, seed: int = 1) -> list[str]:
    """Keys of a prompt that is on the host, and no more on the device."""
    tokens = prompt(seed, pages, PAGE)
    server.serve(tokens)
    server.settle()
    server.drop_device()
    return page_hashes(tokens, PAGE)
