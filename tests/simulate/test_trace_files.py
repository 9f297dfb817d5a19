"""Traces as pages: they share exactly what ids or tokens share; broken files are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conversation import write_lines

from hicache_nsa.simulate.prefixes import prefix_runs
from hicache_nsa.traces import Trace, TraceError, TraceOptions, read_trace


def read(tmp_path: Path, rows: list[Any], **options: Any) -> Trace:
    return read_trace(write_lines(tmp_path / "trace.jsonl", rows), TraceOptions(**options))


def blocks(*ids: int, tokens: int | None = None, size: int = 512) -> dict[str, Any]:
    length = len(ids) * size if tokens is None else tokens
    return {"timestamp": 0, "input_length": length, "output_length": 9, "hash_ids": list(ids)}


def tokens_of(row: dict[str, Any], size: int) -> list[int]:
    """The row in tokens, a number for each."""
    return [id * size + i for id in row["hash_ids"] for i in range(size)][: row["input_length"]]


def shared(trace: Trace, one: int, other: int) -> int:
    """Leading pages that two requests have in common."""
    pairs = zip(trace.requests[one].pages, trace.requests[other].pages, strict=False)
    count = 0
    for left, right in pairs:
        if left != right:
            break
        count += 1
    return count


def test_a_mooncake_trace(tmp_path: Path) -> None:
    rows = [blocks(0, 4, 9, tokens=1030), "", blocks(0, 4), blocks(), blocks(0, 7, tokens=600)]
    trace = read(tmp_path, rows)
    assert (trace.kind, trace.block_size, trace.tokenizer) == ("mooncake", 512, None)
    assert [request.tokens for request in trace.requests] == [1030, 1024, 0, 600]
    assert [len(request.pages) for request in trace.requests] == [16, 16, 0, 9]
    assert trace.prompt_tokens == 2654 and trace.largest_pages == 16
    assert shared(trace, 0, 1) == 16 and shared(trace, 0, 3) == 8
    assert len(np.unique(trace.requests[0].pages)) == 16


@pytest.mark.parametrize("block_size", [1, 4, 6, 12, 16, 40, 512])
@pytest.mark.parametrize("page_size", [1, 4, 16, 64])
def test_pages_share_what_the_tokens_share(block_size: int, page_size: int, tmp_path: Path) -> None:
    """Block ids and the token ids that they stand for give the same tree."""
    rng = np.random.default_rng(block_size * 100 + page_size)
    rows: list[dict[str, Any]] = []
    for _ in range(30):
        start = rows[int(rng.integers(len(rows)))]["hash_ids"] if rows else []
        kept = start[: int(rng.integers(len(start) + 1))]
        ids = [*kept, *rng.integers(0, 10**15, int(rng.integers(0, 9))).tolist()]
        length = max(len(ids) * block_size - int(rng.integers(block_size)), 0)
        rows.append(blocks(*ids, tokens=length))
    by_block = read(tmp_path, rows, kind="blocks", block_size=block_size, page_size=page_size)
    by_token = read(
        tmp_path, [{"tokens": tokens_of(row, block_size)} for row in rows], page_size=page_size
    )
    assert prefix_runs(by_block.requests) == prefix_runs(by_token.requests)
    for one, other in zip(by_block.requests, by_token.requests, strict=True):
        assert one.tokens == other.tokens
        assert len(one.pages) == len(other.pages) == one.tokens // page_size
        assert one.pages.dtype == np.int64


def test_blocks_without_a_length_are_whole(tmp_path: Path) -> None:
    trace = read(tmp_path, [{"hash_ids": [5, 6, 7, 8, 9]}], block_size=16)
    assert (trace.kind, trace.requests[0].tokens, len(trace.requests[0].pages)) == ("blocks", 80, 1)


def test_token_ids_under_every_name(tmp_path: Path) -> None:
    names = ("tokens", "token_ids", "prompt_token_ids", "prompt", "text")
    trace = read(tmp_path, [{name: list(range(130))} for name in names])
    assert trace.kind == "prompts" and trace.tokenizer is None
    assert [request.tokens for request in trace.requests] == [130] * 5
    assert shared(trace, 0, 4) == 2


def test_texts(tmp_path: Path) -> None:
    rows = [{"prompt": "a" * 200, "id": 1}, {"prompt": "a" * 150 + "b"}, {"text": "ä" * 64}]
    trace = read(tmp_path, rows, tokenizer="bytes")
    assert trace.tokenizer == "bytes"
    assert [request.tokens for request in trace.requests] == [200, 151, 128]
    assert shared(trace, 0, 1) == 2


def test_questions_with_shots(tmp_path: Path) -> None:
    rows = [{"question": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(40)]
    common = read(tmp_path, rows, tokenizer="bytes", shots=8)
    assert len(common.requests) == 32  # all behind the shots
    shots = "".join(f"Question: What is {n} + {n}?\nAnswer: {2 * n}\n\n" for n in range(8))
    assert shared(common, 0, 31) == len(shots) // 64 == 4
    own = read(tmp_path, rows, tokenizer="bytes", shots=8, own_shots=True, limit=5)
    assert len(own.requests) == 5 and shared(own, 0, 1) == 0
    plain = read(tmp_path, rows, tokenizer="bytes")
    assert len(plain.requests) == 40 and plain.requests[0].tokens == len(
        "Question: What is 0 + 0?\nAnswer:"
    )


def test_limit_and_repeat(tmp_path: Path) -> None:
    trace = read(tmp_path, [blocks(n) for n in range(9)] + ["{"], limit=3, repeat=2)
    assert [int(request.pages[0]) // 8 for request in trace.requests] == [0, 1, 2, 0, 1, 2]


GOOD = blocks(0, tokens=3)
BROKEN: dict[str, tuple[Any, str]] = {
    "no json": ("{", "not a line of JSON"),
    "deep": ("[" * 100_000, "not a line of JSON"),
    "a list": ([1], "expected an object, got list"),
    "no length": ({"hash_ids": []}, '"input_length" must be tokens, 0 or more, got None'),
    "negative": (blocks(tokens=-1), "got -1"),
    "a float": ({**GOOD, "input_length": 3.0}, "got 3.0"),
    "a bool": ({**GOOD, "input_length": True}, "got True"),
    "no ids": ({"input_length": 3}, '"hash_ids" must be a list of integers'),
    "a text id": ({**GOOD, "hash_ids": ["a"]}, '"hash_ids" must be a list of integers'),
    "a negative id": ({**GOOD, "hash_ids": [-1]}, '"hash_ids" must be a list of integers'),
    "a huge id": ({**GOOD, "hash_ids": [2**63]}, f"from 0 to {2**63 - 1}"),
    "too few ids": (blocks(0, tokens=513), "1 blocks of 512 tokens for 513 tokens, expected 2"),
    "too many ids": (blocks(0, 1, tokens=512), "2 blocks of 512 .* expected 1"),
    "a prompt": ({"tokens": [1]}, '"input_length" must be'),
}
BROKEN_PROMPTS: dict[str, tuple[Any, str]] = {
    "no prompt": ({"answer": "x"}, 'no prompt; a line has one of "prompt", "text", "tokens"'),
    "a number": ({"prompt": 3}, '"prompt" must be a text or a list of token ids, got int'),
    "text as tokens": ({"tokens": "abc"}, '"tokens" must be a list of token ids, got str'),
    "floats": ({"tokens": [1.5]}, '"tokens" must be integers'),
    "a bool": ({"tokens": [1, True]}, "must be integers, got a bool"),
    "nested": ({"tokens": [[1]]}, "must be 1-D"),
    "huge": ({"tokens": [2**70]}, "does not fit in int64"),
    "half a character": ({"prompt": "\ud800"}, '"prompt" is not valid Unicode'),
}


@pytest.mark.parametrize(("row", "text"), BROKEN.values(), ids=BROKEN)
def test_a_broken_line_is_named(row: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=rf"trace\.jsonl:3: .*{text}"):
        read(tmp_path, [GOOD, "", row])


@pytest.mark.parametrize(("row", "text"), BROKEN_PROMPTS.values(), ids=BROKEN_PROMPTS)
def test_a_broken_prompt_is_named(row: Any, text: str, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=rf"trace\.jsonl:2: .*{text}"):
        read(tmp_path, [{"tokens": [1]}, row], tokenizer="bytes")


def test_bytes_that_are_no_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_bytes(json.dumps(GOOD).encode() + b'\n{"hash_ids": "\xff"}\n')
    with pytest.raises(TraceError, match=r"trace\.jsonl:2: not a line of JSON .*utf-8"):
        read_trace(file, TraceOptions())


@pytest.mark.parametrize("rows", [[], ["", "  "]], ids=["no line", "blank lines"])
def test_an_empty_file(rows: list[str], tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"trace\.jsonl is empty: it has no line with a request"):
        read(tmp_path, rows)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"cannot read the trace .*nowhere"):
        read_trace(tmp_path / "nowhere", TraceOptions())
    with pytest.raises(TraceError, match="cannot read the trace"):
        read_trace(tmp_path, TraceOptions())


@pytest.mark.parametrize(
    ("row", "options", "text"),
    [
        ({"url": 1}, {}, r"trace\.jsonl:1: an unknown format: neither .* it has url"),
        ({}, {}, "it has nothing"),
        (GOOD, {"kind": "blocks"}, "--block-size"),
        (GOOD, {"kind": "mooncake", "block_size": 16}, "512 tokens, not 16: use --format blocks"),
        (GOOD, {"shots": 3}, 'for prompts with "question"'),
        ({"tokens": [1]}, {"own_shots": True}, 'for prompts with "question"'),
        ({"tokens": [1]}, {"block_size": 16}, "prompts have no blocks: leave out --block-size 16"),
        ({"tokens": [1]}, {"kind": "mooncake"}, r"trace\.jsonl:1: "),
    ],
)
def test_options_that_do_not_fit(
    row: Any, options: dict[str, Any], text: str, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=text):
        read(tmp_path, [row], **options)
