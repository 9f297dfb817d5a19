"""Read a trace; what it holds is told by its first line, or said by the caller."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from hicache_nsa.demo.prompts import PromptPlan, build_prompts
from hicache_nsa.traces.blocks import MOONCAKE_BLOCK, parse_blocks
from hicache_nsa.traces.lines import Row, TraceError, json_rows
from hicache_nsa.traces.pages import BlockPages, TokenPages
from hicache_nsa.traces.prompts import QUESTION, Encoder, is_prompt, parse_prompt
from hicache_nsa.traces.trace import Request, Trace

KINDS = ("mooncake", "blocks", "prompts")
"""``mooncake``: block ids of 512 tokens. ``blocks``: the same with another block size. ``prompts``:
token ids, texts or questions."""

Rows = Iterator[tuple[str, Row]]


@dataclass(frozen=True)
class TraceOptions:
    """kind: of ``KINDS``; None: told by the first line. block_size: of block ids; None: 512.

    tokenizer: of texts, see ``open_tokenizer``. shots, own_shots: of questions, see ``PromptPlan``.
    limit: read so many requests. repeat: these so many times over.
    """

    kind: str | None = None
    block_size: int | None = None
    page_size: int = 64
    tokenizer: str | None = None
    shots: int = 0
    own_shots: bool = False
    limit: int | None = None
    repeat: int = 1


def read_trace(path: str | Path, options: TraceOptions) -> Trace:
    """The requests of a file.

    Raises:
        TraceError: the file can't be read or is empty, a line is broken (named), or the options do
            not fit it. PromptsError, TokenizerError: of questions and texts; all are ValueErrors.
    """
    rows = json_rows(path)
    first = next(rows, None)
    if first is None:
        raise TraceError(f"the trace {path} is empty: it has no line with a request")
    kind = options.kind or _kind_of(*first, options)
    _refuse_misfits(kind, first[1], options)
    rows = chain([first], rows)
    if kind == "prompts":
        trace = _prompts(path, rows, QUESTION in first[1], options)
    else:
        trace = _blocks(path, kind, rows, options)
    return replace(trace, requests=tuple(trace.requests) * options.repeat)


def _kind_of(place: str, row: Row, options: TraceOptions) -> str:
    if "hash_ids" in row:
        return "mooncake" if options.block_size in (None, MOONCAKE_BLOCK) else "blocks"
    if is_prompt(row):
        return "prompts"
    found = ", ".join(sorted(map(str, row))[:8]) or "nothing"
    raise TraceError(
        f'{place}: an unknown format: neither "hash_ids" (block ids) nor a prompt; it has {found}'
    )


def _refuse_misfits(kind: str, row: Row, options: TraceOptions) -> None:
    size = options.block_size
    if kind == "blocks" and size is None:
        raise TraceError("a trace of blocks needs the tokens that one stands for: --block-size")
    if kind == "mooncake" and size not in (None, MOONCAKE_BLOCK):
        raise TraceError(
            f"blocks of a mooncake trace have {MOONCAKE_BLOCK} tokens, not {size}: "
            f"use --format blocks"
        )
    if kind == "prompts" and size is not None:
        raise TraceError(f"prompts have no blocks: leave out --block-size {size}")
    if (options.shots or options.own_shots) and not (kind == "prompts" and QUESTION in row):
        raise TraceError(f'--shots and --own-shots are for prompts with "{QUESTION}" and "answer"')


def _blocks(path: str | Path, kind: str, rows: Rows, options: TraceOptions) -> Trace:
    block_size = options.block_size or MOONCAKE_BLOCK
    pages = BlockPages(block_size, options.page_size)
    requests = []
    for place, row in islice(rows, options.limit):
        tokens, ids = parse_blocks(row, place, block_size, all_whole=kind == "blocks")
        requests.append(Request(tokens, pages.of(ids, tokens)))
    return Trace(str(path), kind, options.page_size, requests, block_size=block_size)


def _prompts(path: str | Path, rows: Rows, questions: bool, options: TraceOptions) -> Trace:
    encoder = Encoder(options.tokenizer)
    if questions:
        plan = PromptPlan(options.shots, None, options.own_shots, Path(path), every=True)
        texts = islice(build_prompts(plan), options.limit)
        prompts = (encoder.encode(text) for text in texts)
    else:
        parts = islice(rows, options.limit)
        prompts = (parse_prompt(row, place, encoder) for place, row in parts)
    pages = TokenPages(options.page_size)
    requests = [Request(len(tokens), pages.of(tokens)) for tokens in prompts]
    return Trace(str(path), "prompts", options.page_size, requests, tokenizer=encoder.name)
