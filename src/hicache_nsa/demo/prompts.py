"""The questions of the demo and the few-shot prompts made of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

DEFAULT_QUESTIONS = 16
DEFAULT_SHOTS = 24


class PromptsError(ValueError):
    """The prompts asked for cannot be made; the message says why and what to change."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question and, where it is known, its worked answer."""

    question: str
    answer: str | None


@dataclass(frozen=True, slots=True)
class PromptPlan:
    """What to ask: ``shots`` worked examples before each of ``questions`` questions.

    ``questions=None`` means DEFAULT_QUESTIONS, or fewer where a prompts file has fewer; with
    ``every`` all that it has.
    ``own_shots`` gives every prompt examples of its own behind a heading of its own, so that no two
    prompts share a first page.
    """

    shots: int = DEFAULT_SHOTS
    questions: int | None = None
    own_shots: bool = False
    file: Path | None = None
    seed: int = 20250929
    every: bool = False


def build_prompts(plan: PromptPlan) -> list[str]:
    """The prompt texts of a plan, in the order in which they are asked.

    From a file, the shots are its first ``shots`` rows that have an answer and the questions are
    the rows after them. Raises PromptsError when the file is broken or too short.
    """
    if plan.file is None:
        source = _generated(plan)
        first, wanted = plan.shots, plan.questions or DEFAULT_QUESTIONS
    else:
        source = load_questions(plan.file)
        first = _after_shots(source, plan)
        wanted = _questions_of_file(len(source) - first, plan)
    questions = source[first : first + wanted]
    answered = [row for row in source if row.answer is not None]
    if not plan.own_shots:
        block = few_shot_block(answered[: plan.shots])
        return [block + _asked(question) for question in questions]
    return [_own_prompt(index, row, answered, plan.shots) for index, row in enumerate(questions)]


def few_shot_block(shots: Sequence[Question]) -> str:
    """Worked examples as text; "" for none."""
    return "".join(f"Question: {shot.question}\nAnswer: {shot.answer}\n\n" for shot in shots)


def load_questions(path: Path) -> list[Question]:
    """The questions of a JSON-lines file; lines of white space are passed over.

    Raises PromptsError naming the file and the line of the first broken row.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise PromptsError(f"cannot read the prompts file {path}: {error.strerror}") from error
    return [_parse(line, f"{path}:{n}") for n, line in enumerate(lines, start=1) if line.strip()]


def _parse(line: bytes, place: str) -> Question:
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PromptsError(f"{place}: not a line of JSON ({error})") from error
    if not isinstance(row, dict):
        raise PromptsError(f'{place}: expected an object with "question", got {type(row).__name__}')
    question, answer = row.get("question"), row.get("answer")
    if not isinstance(question, str) or not question.strip():
        raise PromptsError(f'{place}: "question" is missing or is not a text')
    if answer is not None and not isinstance(answer, str):
        raise PromptsError(f'{place}: "answer" is not a text but {type(answer).__name__}')
    try:
        f"{question}{answer}".encode()
    except UnicodeEncodeError as error:
        raise PromptsError(f"{place}: a text that is not valid Unicode ({error.reason})") from error
    return Question(question, answer)


def _generated(plan: PromptPlan) -> list[Question]:
    from hicache_nsa.demo.arithmetic import word_problems

    wanted = plan.questions or DEFAULT_QUESTIONS
    # Own shots: enough rows that the windows of two prompts differ (each moves on by `shots` rows).
    rows = plan.shots + wanted + (plan.shots * wanted if plan.own_shots else 0)
    return list(islice(word_problems(plan.seed), rows))


def _after_shots(source: Sequence[Question], plan: PromptPlan) -> int:
    """Index of the first row after the first ``shots`` rows that have an answer."""
    if plan.shots == 0:
        return 0
    answered = [index for index, row in enumerate(source) if row.answer is not None]
    if len(answered) < plan.shots:
        raise PromptsError(
            f"{plan.file} has {len(answered)} rows with an answer, fewer than --shots {plan.shots}"
        )
    return answered[plan.shots - 1] + 1


def _questions_of_file(left: int, plan: PromptPlan) -> int:
    """How many questions to ask when ``left`` rows follow the shots."""
    default = left if plan.every else min(DEFAULT_QUESTIONS, left)
    wanted = plan.questions if plan.questions is not None else default
    if left == 0 or wanted > left:
        asked = "" if plan.questions is None else f"; --questions {plan.questions} asks for more"
        raise PromptsError(
            f"{plan.file} has {left} rows left after {plan.shots} shots{asked}: "
            "use fewer shots or questions, or a longer file"
        )
    return wanted


def _own_prompt(index: int, row: Question, answered: Sequence[Question], shots: int) -> str:
    """A prompt with ``shots`` examples of its own: the window of the answered rows (the question
    itself left out) that starts where the window of the prompt before it ended.
    """
    others = [other for other in answered if other is not row]
    if shots > len(others):
        raise PromptsError(f"{len(others)} other rows with an answer: fewer than --shots {shots}")
    window = [others[(index * shots + step) % len(others)] for step in range(shots)]
    return f"{index + 1}. set of exercises\n\n{few_shot_block(window)}{_asked(row)}"


def _asked(row: Question) -> str:
    return f"Question: {row.question}\nAnswer:"
