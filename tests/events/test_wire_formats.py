"""Batches in the formats of both engines: bytes, fields, and what is refused."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest
from sample_events import EVENTS, PLAIN, SALTED, check_that_structs_read_our_bytes
from wire_structs import BATCHES

from hicache_nsa.cache import Cleared, Removed
from hicache_nsa.kv_events import FORMATS, encode_batch


@pytest.mark.parametrize("format", FORMATS)
def test_the_structs_of_the_engine_read_and_write_our_bytes(format: str) -> None:
    msgpack = msgspec.msgpack
    check_that_structs_read_our_bytes(format, BATCHES[format], msgpack.Encoder, msgpack.Decoder)


GOLDEN = {
    "vllm": (
        "93cb4029000000000000"
        "93"
        "88a474797065ab426c6f636b53746f726564"
        "ac626c6f636b5f6861736865739207cffffffffffffffffe"
        "b1706172656e745f626c6f636b5f68617368c0"
        "a9746f6b656e5f69647394010203ce00100000"
        "aa626c6f636b5f73697a6502"
        "a76c6f72615f6964c0"
        "a66d656469756da3475055"
        "a96c6f72615f6e616d65c0"
        "83a474797065ac426c6f636b52656d6f766564"
        "ac626c6f636b5f6861736865739105"
        "a66d656469756da3435055"
        "81a474797065b0416c6c426c6f636b73436c6561726564"
        "00"
    ),
    "sglang": (
        "93cb4029000000000000"
        "93"
        "87a474797065ab426c6f636b53746f726564"
        "ac626c6f636b5f6861736865739207fe"
        "b1706172656e745f626c6f636b5f68617368c0"
        "a9746f6b656e5f69647394010203ce00100000"
        "aa626c6f636b5f73697a6502"
        "a76c6f72615f6964c0"
        "a66d656469756da3475055"
        "83a474797065ac426c6f636b52656d6f766564"
        "ac626c6f636b5f6861736865739105"
        "a66d656469756daa4350555f50494e4e4544"
        "81a474797065b0416c6c426c6f636b73436c6561726564"
        "00"
    ),
}


@pytest.mark.parametrize("format", FORMATS)
def test_the_bytes_of_one_batch(format: str) -> None:
    sent = encode_batch(format, [PLAIN, Removed("host", (5,)), Cleared()], seconds=12.5)
    assert sent.hex() == GOLDEN[format]


@pytest.mark.parametrize("format", FORMATS)
def test_a_router_that_knows_no_extra_keys_gets_none(format: str) -> None:
    _, (plain, salted), _ = msgspec.msgpack.decode(
        encode_batch(format, [PLAIN, SALTED], seconds=0.0)
    )
    named = {"vllm": {"extra_keys"}, "sglang": {"cache_salt"}}[format]
    assert set(salted) - set(plain) == named


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="vllm, sglang, got 'dynamo'"):
        encode_batch("dynamo", EVENTS, seconds=0.0)
    with pytest.raises(ValueError, match="cache_salt, lora_name, got 'salt'"):
        encode_batch("vllm", EVENTS, seconds=0.0, extra_key_as="salt")


@pytest.mark.parametrize("missing", ["zmq", "msgspec"])
def test_without_the_extra_the_import_says_what_to_install(missing: str) -> None:
    package = {"zmq": "pyzmq", "msgspec": "msgspec"}[missing]
    code = (
        f"import importlib.util as u; find = u.find_spec; "
        f"u.find_spec = lambda name, *more: None if name == '{missing}' else find(name, *more)\n"
        f"import hicache_nsa\n"
        f"try: import hicache_nsa.kv_events\n"
        f"except ImportError as error: print(error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert f"needs {package}:" in run.stdout and "hicache-nsa[events]" in run.stdout
