import hashlib
import json
import re
from itertools import islice
from pathlib import Path

import pytest
from shared_data import GSM8K, needs_gsm8k

from hicache_nsa.demo.arithmetic import TEMPLATES, word_problems
from hicache_nsa.demo.prompts import (
    DEFAULT_QUESTIONS,
    PromptPlan,
    PromptsError,
    build_prompts,
    few_shot_block,
    load_questions,
)
from hicache_nsa.demo.tokenizers import ByteTokenizer


def write_rows(path: Path, rows: list[object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def numbered(count: int, answered: int) -> list[object]:
    rows: list[object] = []
    for index in range(count):
        row = {"question": f"What is {index} + 1?"}
        rows.append({**row, "answer": str(index + 1)} if index < answered else row)
    return rows


def test_generated_problems_are_the_same_everywhere() -> None:
    text = "".join(f"{row.question}|{row.answer}\n" for row in islice(word_problems(1), 200))
    # Pinned: another value means that the default prompts have changed.
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "4009297afadf52ce"


def test_generated_problems_differ_and_use_every_template() -> None:
    rows = list(islice(word_problems(7), 400))
    assert len({row.question for row in rows}) == 400
    openings = {re.sub(r"[A-Z]?[a-z]*\d*", "", row.question)[:40] for row in rows}
    assert len(openings) >= len(TEMPLATES)


def test_every_equation_in_a_worked_answer_holds() -> None:
    equation = re.compile(r"(\d+(?: [-+*/] \d+)+) = \$?(\d+)")
    checked = 0
    for row in islice(word_problems(3), 400):
        assert row.answer is not None
        steps, final = row.answer.split("\n#### ")
        for left, right in equation.findall(steps):
            first, *rest = left.split()
            value = int(first)
            for sign, number in zip(rest[::2], rest[1::2], strict=True):
                value = {
                    "+": value + int(number),
                    "-": value - int(number),
                    "*": value * int(number),
                    "/": value // int(number),
                }[sign]
            assert value == int(right), row
            checked += 1
        assert int(final) >= 0
        assert re.findall(r"\d+", steps)[-1] == final or final in steps
    assert checked > 800


def test_shared_shots_come_first_and_no_question_is_a_shot() -> None:
    prompts = build_prompts(PromptPlan(shots=5, questions=4))
    assert len(prompts) == 4
    block = prompts[0][: prompts[0].rindex("Question: ")]
    assert block.count("\n#### ") == 5
    for prompt in prompts:
        assert prompt.startswith(block)
        assert prompt.endswith("\nAnswer:")
        assert prompt[len(block) :].removesuffix("\nAnswer:") not in block
    assert len(set(prompts)) == 4


def test_own_shots_share_no_page() -> None:
    tokenizer = ByteTokenizer()
    prompts = build_prompts(PromptPlan(shots=6, questions=12, own_shots=True))
    assert len({tuple(tokenizer.encode(prompt)[:64]) for prompt in prompts}) == 12
    assert len({prompt.partition("\n\n")[2][:200] for prompt in prompts}) == 12


def test_no_shots_at_all() -> None:
    prompts = build_prompts(PromptPlan(shots=0, questions=2))
    assert all(prompt.startswith("Question: ") for prompt in prompts)
    assert few_shot_block([]) == ""


def test_file_shots_are_its_first_answered_rows(tmp_path: Path) -> None:
    rows = numbered(8, 8)
    rows.insert(1, {"question": "Unanswered?"})
    file = write_rows(tmp_path / "rows.jsonl", rows)
    prompts = build_prompts(PromptPlan(shots=3, questions=2, file=file))
    assert prompts[0].count("Answer: ") == 3
    assert "Unanswered?" not in prompts[0]
    assert prompts[0].endswith("Question: What is 3 + 1?\nAnswer:")
    assert prompts[1].endswith("Question: What is 4 + 1?\nAnswer:")


def test_file_questions_need_no_answer(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", numbered(5, 2))
    assert len(build_prompts(PromptPlan(shots=2, file=file))) == 3
    many = write_rows(tmp_path / "many.jsonl", numbered(100, 2))
    assert len(build_prompts(PromptPlan(shots=2, file=many))) == DEFAULT_QUESTIONS


@pytest.mark.parametrize("own_shots", [False, True])
def test_file_too_short(tmp_path: Path, own_shots: bool) -> None:
    file = write_rows(tmp_path / "rows.jsonl", numbered(5, 4))
    with pytest.raises(PromptsError, match=r"4 rows with an answer, fewer than --shots 5"):
        build_prompts(PromptPlan(shots=5, file=file, own_shots=own_shots))
    with pytest.raises(PromptsError, match=r"1 rows left after 4 shots; --questions 3"):
        build_prompts(PromptPlan(shots=4, questions=3, file=file, own_shots=own_shots))


def test_file_without_a_question_left(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", numbered(4, 4))
    with pytest.raises(PromptsError, match=r"0 rows left after 4 shots: use fewer"):
        build_prompts(PromptPlan(shots=4, file=file))


def test_own_shots_of_a_file_leave_the_question_out(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "rows.jsonl", numbered(9, 9))
    prompts = build_prompts(PromptPlan(shots=4, questions=5, file=file, own_shots=True))
    for index, prompt in enumerate(prompts):
        assert prompt.count(f"What is {index + 4} + 1?") == 1
    assert len({prompt[:40] for prompt in prompts}) == 5


BROKEN: list[bytes] = [
    b"{",
    b"[1, 2]",
    b'"text"',
    b"null",
    b"{}",
    b'{"question": 3}',
    b'{"question": "  "}',
    b'{"question": null, "answer": "1"}',
    b'{"question": "q", "answer": 4}',
    b'{"question": "\\ud800"}',
    b'{"question": "\xff"}',
    b"[" * 100_000,
    b'{"question": "q"} trailing',
]


@pytest.mark.parametrize("line", BROKEN, ids=range(len(BROKEN)))
def test_broken_line_is_named(tmp_path: Path, line: bytes) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'{"question": "q", "answer": "a"}\n\n' + line + b"\n")
    with pytest.raises(PromptsError) as error:
        load_questions(file)
    assert f"{file}:3: " in str(error.value)
    assert len(str(error.value)) < 1000


def test_blank_lines_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_bytes(b'\xef\xbb\xbf{"question": "a"}\r\n   \n{"question": "b", "answer": null}')
    assert [(row.question, row.answer) for row in load_questions(file)] == [
        ("a", None),
        ("b", None),
    ]


def test_unreadable_file(tmp_path: Path) -> None:
    with pytest.raises(PromptsError, match="cannot read the prompts file"):
        load_questions(tmp_path)


@needs_gsm8k
def test_gsm8k() -> None:
    assert len(load_questions(GSM8K)) == 1319
    prompts = build_prompts(PromptPlan(shots=48, questions=50, file=GSM8K))
    assert len(set(prompts)) == 50
    assert all(prompt.count("\nAnswer:") == 49 for prompt in prompts)
