"""The optional conversation trace, and small traces made here."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

SHARED = Path(os.environ.get("HICACHE_SHARED") or Path(__file__).parents[3] / "shared")
CONVERSATION = SHARED / "data" / "mooncake_fast25_conversation_trace.jsonl"
GSM8K = SHARED / "data" / "gsm8k_test.jsonl"


def needs(file: Path) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        not file.is_file(), reason=f"no {file.name} in the optional data directory (HICACHE_SHARED)"
    )


def prompts(seed: int, count: int, page_size: int, most_pages: int = 9) -> list[list[int]]:
    """Prompts of 1 to most_pages pages, most of them continuing a prefix of an earlier one."""
    rng = np.random.default_rng(seed)
    made: list[list[int]] = []
    for _ in range(count):
        start: list[int] = []
        if made and rng.random() < 0.8:
            old = made[int(rng.integers(len(made)))]
            start = old[: int(rng.integers(len(old) + 1))]
        length = int(rng.integers(1, most_pages * page_size + 1))
        more = rng.integers(0, 50, max(length - len(start), 0)).tolist()
        made.append([*start[:length], *more])
    return made


def write_lines(file: Path, rows: list[object]) -> Path:
    text = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    file.write_text(text, encoding="utf-8")
    return file
