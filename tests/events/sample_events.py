"""A few events of every kind, for tests of formats."""

from __future__ import annotations

from typing import Any

from wire_structs import event_of

from hicache_nsa.cache import Cleared, KvEvent, Removed, Stored
from hicache_nsa.kv_events import encode_batch

HIGH = (1 << 64) - 2  # a negative int64
PLAIN = Stored("device", (7, HIGH), None, (1, 2, 3, 1 << 20), 2, None)
BELOW = Stored("host", (5,), HIGH, (0, 200_000), 2, None)
SALTED = Stored("device", (9, 10), None, (1, 2, 3, 4), 2, "tenant")
SALTED_BELOW = Stored("device", (11,), 10, (5, 6), 2, "tenant")
GONE = [Removed("device", (HIGH,)), Removed("host", (5,))]
EVENTS: list[KvEvent] = [PLAIN, BELOW, SALTED, SALTED_BELOW, *GONE, Cleared()]


def check_that_structs_read_our_bytes(format: str, batch: Any, encoder: Any, decoder: Any) -> None:
    """batch: the class of an engine's batches; encoder, decoder: of MessagePack, as it uses them.

    What the engine's structs read is what we said, and what they write of it are our very bytes.
    """
    for extra_key_as in ("cache_salt", "lora_name"):
        sent = encode_batch(format, EVENTS, seconds=12.5, dp_rank=3, extra_key_as=extra_key_as)
        read = decoder(batch).decode(sent)
        assert read.ts == 12.5
        assert getattr(read, "data_parallel_rank" if format == "vllm" else "attn_dp_rank") == 3
        assert encoder().encode(read) == sent
        heard = [event_of(event) for event in read.events]
        if format == "vllm" and extra_key_as == "cache_salt":  # stands in extra_keys only
            keys = [event.extra_keys for event in read.events[2:4]]
            assert keys == [[("tenant",), None], [None]]
            heard[2:4] = [SALTED, SALTED_BELOW]
        assert heard == EVENTS
        if format == "vllm" and extra_key_as == "lora_name":
            assert read.events[2].extra_keys == [("tenant",), ("tenant",)]
