"""The optional data directory beside the project: HICACHE_SHARED, else ../shared of the root."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("HICACHE_SHARED") or Path(__file__).parents[3] / "shared")
GSM8K = SHARED / "data" / "gsm8k_test.jsonl"

needs_gsm8k = pytest.mark.skipif(
    not GSM8K.is_file(), reason=f"no {GSM8K.name} in the optional data directory (HICACHE_SHARED)"
)
