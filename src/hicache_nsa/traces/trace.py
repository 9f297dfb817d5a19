"""A trace as a simulation takes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from hicache_nsa.tokens import PageIds


@dataclass(frozen=True, slots=True)
class Request:
    """One prompt. tokens: how many it has. pages: a number for each *whole* page, int64.

    Two prompts share exactly the leading pages whose numbers are equal.
    """

    tokens: int
    pages: PageIds


@dataclass(frozen=True)
class Trace:
    """Requests in their order.

    source: the file. kind: of ``KINDS``, how it was read. block_size: tokens a block id stands for,
    None for prompts. tokenizer: None where there was no text.
    """

    source: str
    kind: str
    page_size: int
    requests: Sequence[Request]
    block_size: int | None = None
    tokenizer: str | None = None

    @cached_property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(request.tokens for request in self.requests)

    @cached_property
    def largest_pages(self) -> int:
        """Whole pages of the longest prompt."""
        return max((len(request.pages) for request in self.requests), default=0)
