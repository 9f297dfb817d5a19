"""What the demo says before it starts: what is being shown, and what to look for."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_nsa.demo.settings import DemoSettings


def introduction(settings: DemoSettings, prompts: Sequence[Sequence[int]]) -> list[str]:
    """Two lines on the runs to come. ``prompts``: token ids, at least one prompt."""
    tokens = round(sum(map(len, prompts)) / len(prompts))
    questions = "1 question" if len(prompts) == 1 else f"{len(prompts):,} questions"
    layers = "1 layer" if settings.layers == 1 else f"{settings.layers} layers"
    return [
        f"A sparse-attention model of {layers} (random weights) answers {questions} "
        f"{_shots(settings)}, {tokens:,} tokens a prompt, three times: cold, on the warm device, "
        f"and after a flush that keeps host memory.",
        "Look for: after_flush computes as few tokens as device, with the same output and a short "
        "time to first token.",
    ]


def _shots(settings: DemoSettings) -> str:
    plan = settings.plan
    if plan.shots == 0:
        return "without worked examples"
    return f"behind {plan.shots} {'shots of their own' if plan.own_shots else 'common shots'}"
