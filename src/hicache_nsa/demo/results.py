"""The outcome of the three runs, and the JSON of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from statistics import median

import numpy as np

from hicache_nsa.demo.digests import Mismatch
from hicache_nsa.demo.engine import Answer
from hicache_nsa.demo.verdict import failures, nothing_came_back

MISMATCHES_SHOWN = 20


@dataclass(slots=True)
class Run:
    """Answers of one pass over the questions, in their order; fewer of them if it was cut short."""

    name: str
    answers: list[Answer] = field(default_factory=list)

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(answer.prompt_tokens for answer in self.answers)

    @property
    def device_hit_tokens(self) -> int:
        """Prompt tokens found on device."""
        return sum(answer.device_hit_tokens for answer in self.answers)

    @property
    def host_hit_tokens(self) -> int:
        """Prompt tokens brought back from host memory."""
        return sum(answer.host_hit_tokens for answer in self.answers)

    @property
    def computed_tokens(self) -> int:
        """Prompt tokens computed by the model."""
        return sum(answer.computed_tokens for answer in self.answers)

    @property
    def generated_tokens(self) -> int:
        """Tokens of all answers."""
        return sum(len(answer.generated) for answer in self.answers)

    @property
    def seconds(self) -> float:
        """Time spent serving, digests left out."""
        return sum(answer.seconds for answer in self.answers)

    @property
    def ttft_ms_p50(self) -> float | None:
        """Median time to first token in ms; None before the first answer."""
        return 1e3 * median(a.ttft_seconds for a in self.answers) if self.answers else None

    @property
    def ttft_ms_first(self) -> float | None:
        """The first question's time to first token in ms."""
        return 1e3 * self.answers[0].ttft_seconds if self.answers else None

    @property
    def output_sha256(self) -> str:
        """Of all generated token ids as little-endian int64, each answer behind its length."""
        digest = sha256()
        for answer in self.answers:
            digest.update(np.asarray([len(answer.generated), *answer.generated], "<i8").tobytes())
        return digest.hexdigest()

    def same_outputs(self, other: Run) -> bool:
        """Equal answers to every question that both runs answered."""
        pairs = zip(self.answers, other.answers, strict=False)
        return all(one.generated == two.generated for one, two in pairs)

    def to_json(self) -> dict[str, object]:
        """The run as the command's JSON shows it."""
        return {
            "name": self.name,
            "questions": len(self.answers),
            "prompt_tokens": self.prompt_tokens,
            "device_hit_tokens": self.device_hit_tokens,
            "host_hit_tokens": self.host_hit_tokens,
            "computed_tokens": self.computed_tokens,
            "generated_tokens": self.generated_tokens,
            "seconds": self.seconds,
            "ttft_ms_p50": self.ttft_ms_p50,
            "ttft_ms_first": self.ttft_ms_first,
            "output_sha256": self.output_sha256,
        }


@dataclass(slots=True)
class DemoResult:
    """Everything the demo found out.

    ``sizing``: one sentence on the pools. ``reusable_pages``: distinct whole pages of the prompts
    that can come back. ``pools_hold_all``: both pools have room for all that the prompts need.
    ``kept_host_tokens``: host copies that were there after the flush.
    """

    settings: dict[str, object]
    sizing: str
    reusable_pages: int
    pools_hold_all: bool
    runs: list[Run] = field(default_factory=list)
    kept_host_tokens: int = 0
    pages_compared: int = 0
    digests_compared: int = 0
    mismatches: Sequence[Mismatch] = ()
    interrupted: bool = False

    @property
    def outputs_identical(self) -> bool:
        """All runs gave the first run's answers."""
        return all(run.same_outputs(self.runs[0]) for run in self.runs[1:])

    @property
    def bytes_identical(self) -> bool:
        """Every page that came back held the bytes that were computed, and pages came back if they
        had to: nothing compared proves nothing.
        """
        return not self.mismatches and not nothing_came_back(self)

    @property
    def passed(self) -> bool:
        """The demo showed what it is there to show."""
        return self.bytes_identical and not self.failures and not self.interrupted

    @property
    def failures(self) -> list[str]:
        """What did not hold, in sentences."""
        return failures(self)

    def to_json(self) -> dict[str, object]:
        """The outcome as the command's JSON shows it."""
        return {
            "settings": self.settings,
            "sizing": self.sizing,
            "runs": [run.to_json() for run in self.runs],
            "outputs_identical": self.outputs_identical,
            "bytes_identical": self.bytes_identical,
            "kept_host_tokens": self.kept_host_tokens,
            "pages_compared": self.pages_compared,
            "digests_compared": self.digests_compared,
            "mismatched_digests": len(self.mismatches),
            "first_mismatches": [asdict(found) for found in self.mismatches[:MISMATCHES_SHOWN]],
            "failures": self.failures,
            "interrupted": self.interrupted,
        }
