"""SGLang's own structs read a publisher's batches, and write the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("sglang.srt", reason="SGLang isn't installed; `make test-sglang` has it")

import msgspec
from sglang.srt.disaggregation.kv_events import KVEventBatch, StorageMedium

sys.path.append(str(Path(__file__).parents[2] / "events"))
from sample_events import check_that_structs_read_our_bytes

from hicache_nsa.kv_events import FORMATS


def test_sglang_reads_our_batches() -> None:
    msgpack = msgspec.msgpack
    check_that_structs_read_our_bytes("sglang", KVEventBatch, msgpack.Encoder, msgpack.Decoder)


def test_tiers_have_sglangs_names() -> None:
    assert FORMATS["sglang"].media == {
        "device": StorageMedium.GPU.value,
        "host": StorageMedium.CPU.value,
    }
