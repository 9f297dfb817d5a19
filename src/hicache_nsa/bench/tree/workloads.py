"""Prompts of the tree's cases, made once and before anything is timed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np

from hicache_nsa.bench.replay import read_mooncake
from hicache_nsa.bench.tree.settings import PAGE_SIZE, TreeSettings
from hicache_nsa.tokens import PageIds

VOCABULARY = 128_000
SYSTEM_TOKENS = 4_096  # that agentic sessions have in common, at most half of one
SHORT_PROMPTS = 200  # beside the long one
LATE_TURNS = 8  # of a session, that are matched


@dataclass(frozen=True)
class Workload:
    """``inserted`` one after the other, then ``queries`` are matched. Tokens: int64 [n].

    Every query is a prefix of something inserted: all its whole pages are found.
    """

    inserted: Sequence[PageIds]
    queries: Sequence[PageIds]

    @cached_property
    def expected(self) -> list[int]:
        """Tokens that a match of each of ``inserted`` finds right before its insert."""
        return cached_before(self.inserted)

    @cached_property
    def pages(self) -> int:
        """Pages of a tree that has all of ``inserted``."""
        whole = sum(len(tokens) // PAGE_SIZE for tokens in self.inserted)
        return whole - sum(self.expected) // PAGE_SIZE


class Workloads:
    """The workloads of ``settings``, each made when it is first asked for."""

    def __init__(self, settings: TreeSettings) -> None:
        self.settings = settings

    @cached_property
    def few_shot(self) -> Workload:
        """Questions behind the same worked examples.

        Raises:
            ValueError: a prompts file or a tokenizer that can't be used.
        """
        from hicache_nsa.demo.prompts import PromptPlan, build_prompts
        from hicache_nsa.demo.tokenizers import open_tokenizer

        settings = self.settings
        plan = PromptPlan(settings.shots, settings.questions, file=settings.prompts)
        tokenizer = open_tokenizer(settings.tokenizer)
        prompts = [np.array(tokenizer.encode(text), np.int64) for text in build_prompts(plan)]
        return Workload(prompts, prompts)

    @cached_property
    def conversation(self) -> Workload:
        """The first requests of the trace.

        Raises:
            TraceError: it can't be read.
        """
        assert self.settings.trace is not None
        requests = islice(read_mooncake(self.settings.trace), self.settings.requests)
        prompts = [tokens for tokens in requests if len(tokens) >= PAGE_SIZE]
        if not prompts:
            raise ValueError(f"{self.settings.trace} has no prompt of a page or more")
        return Workload(prompts, prompts)

    @cached_property
    def agentic(self) -> Workload:
        """Sessions that grow turn by turn, in turn: a node a turn."""
        settings, rng = self.settings, np.random.default_rng(11)
        system = min(SYSTEM_TOKENS, settings.session_tokens // 2)
        common = rng.integers(0, VOCABULARY, system)
        own = settings.session_tokens - system
        texts = [
            np.concatenate([common, rng.integers(0, VOCABULARY, own)])
            for _ in range(settings.sessions)
        ]
        ends = system + np.linspace(0, own, settings.turns + 1)[1:].astype(int)
        turns = [text[:end] for end in ends for text in texts]
        return Workload(turns, turns[-LATE_TURNS * settings.sessions :])

    @cached_property
    def long(self) -> Workload:
        """One long prompt in one insert, beside many short ones."""
        rng = np.random.default_rng(7)
        prompt = rng.integers(0, VOCABULARY, self.settings.long_tokens)
        short = rng.integers(0, VOCABULARY, (SHORT_PROMPTS, 4 * PAGE_SIZE))
        return Workload([prompt, *short], [prompt])

    @cached_property
    def leaves(self) -> np.ndarray[tuple[int, int], np.dtype[np.int64]]:
        """Prompts of one page that share nothing, int64 [leaves, PAGE_SIZE]."""
        pages = np.random.default_rng(5).integers(0, VOCABULARY, (self.settings.leaves, PAGE_SIZE))
        pages[:, 0] = np.arange(len(pages))
        return pages


def cached_before(prompts: Iterable[PageIds]) -> list[int]:
    """For each prompt the tokens of its whole pages that those before it have as a prefix.

    The reference that matches are compared with: a set of chained hashes, no tree.
    """
    seen: set[int] = set()
    found = []
    for tokens in prompts:
        chain = chained_hashes(tokens)
        known = next((n for n, hash in enumerate(chain) if hash not in seen), len(chain))
        found.append(known * PAGE_SIZE)
        seen.update(chain)
    return found


def chained_hashes(tokens: PageIds) -> list[int]:
    """A hash for each whole page and all before it."""
    chain, above = [], 0
    for start in range(0, len(tokens) - PAGE_SIZE + 1, PAGE_SIZE):
        above = hash((above, tokens[start : start + PAGE_SIZE].tobytes()))
        chain.append(above)
    return chain
