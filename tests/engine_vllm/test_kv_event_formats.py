"""vLLM's own structs read the batches that a cache's publisher sends, and write the same bytes."""

import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="needs vLLM: make test-vllm")

import msgspec
from vllm.distributed.kv_events import KVEventBatch

sys.path.append(str(Path(__file__).parents[1] / "events"))
from sample_events import check_that_structs_read_our_bytes


def test_f50_vllm_reads_our_batches() -> None:
    msgpack = msgspec.msgpack
    check_that_structs_read_our_bytes("vllm", KVEventBatch, msgpack.Encoder, msgpack.Decoder)
