"""Prompts of a JSON-lines file: token ids, texts, or questions with worked answers."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from hicache_nsa.demo.tokenizers import Tokenizer, open_tokenizer
from hicache_nsa.tokens import PageIds, int64_array
from hicache_nsa.traces.lines import Row, TraceError

ID_KEYS = ("tokens", "token_ids", "prompt_token_ids")
EITHER_KEYS = ("prompt", "text")
QUESTION = "question"
KNOWN = ", ".join(f'"{key}"' for key in (*EITHER_KEYS, *ID_KEYS, QUESTION))


class Encoder:
    """Text to token ids; the tokenizer is opened for the first text.

    choice: see ``open_tokenizer``.
    """

    def __init__(self, choice: str | None) -> None:
        self._choice = choice
        self.name: str | None = None

    def encode(self, text: str) -> PageIds:
        """Token ids, int64."""
        return np.array(self._tokenizer.encode(text), dtype=np.int64)

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        tokenizer = open_tokenizer(self._choice)
        self.name = tokenizer.name
        return tokenizer


def is_prompt(row: Row) -> bool:
    """Whether a line has a prompt in one of these forms."""
    return any(key in row for key in (*EITHER_KEYS, *ID_KEYS, QUESTION))


def parse_prompt(row: Row, place: str, encoder: Encoder) -> PageIds:
    """Token ids of a line with a text or ids.

    Raises:
        TraceError: neither is there, or what is there is no text and no list of ids.
    """
    for key in (*ID_KEYS, *EITHER_KEYS):
        if key in row:
            return _tokens(row[key], key, place, encoder)
    raise TraceError(f"{place}: no prompt; a line has one of {KNOWN}")


def _tokens(value: Any, key: str, place: str, encoder: Encoder) -> PageIds:
    if isinstance(value, str) and key in EITHER_KEYS:
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise TraceError(f'{place}: "{key}" is not valid Unicode ({error.reason})') from error
        return encoder.encode(value)
    if not isinstance(value, list):
        wanted = "a text or a list of token ids" if key in EITHER_KEYS else "a list of token ids"
        raise TraceError(f'{place}: "{key}" must be {wanted}, got {type(value).__name__}')
    try:
        return int64_array(value, f'"{key}"')
    except (TypeError, ValueError) as error:
        raise TraceError(f"{place}: {error}") from error
