"""What ``hicache bench tree`` is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

PAGE_SIZE = 64
OURS = "hicache"
PEERS: dict[str, tuple[str, ...]] = {"sglang": ("sglang-radix", "sglang-unified", "sglang-rust")}
"""What ``--peer`` takes, and the names of the trees that it stands for."""


@dataclass(frozen=True, slots=True)
class TreeSettings:
    """The workloads' sizes; a page has PAGE_SIZE tokens.

    ``prompts``: questions (JSON lines) of the few-shot prompts, None: generated ones. ``trace``: a
    trace in Mooncake's format, of which the first ``requests`` are taken; without one the cases on
    conversations are left out. ``sessions`` agentic sessions grow in ``turns`` to
    ``session_tokens``. ``leaves``: pages that each are a leaf of their own, of which ``evict`` are
    evicted in one call. ``peers``: names of PEERS. ``pattern``: only cases whose id it matches.
    """

    prompts: Path | None = None
    shots: int = 48
    questions: int = 50
    tokenizer: str | None = None
    trace: Path | None = None
    requests: int = 3_000
    sessions: int = 16
    turns: int = 120
    session_tokens: int = 95_000
    long_tokens: int = 131_072
    leaves: int = 200_000
    evict: int = 50_000
    rounds: int = 3
    peers: tuple[str, ...] = ()
    pattern: str | None = None
