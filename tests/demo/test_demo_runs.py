"""The three runs end to end, with a model small enough for a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from shared_data import GSM8K, needs_gsm8k

from hicache_nsa import HiCache, TransferError, testing
from hicache_nsa.demo.prompts import PromptPlan, PromptsError
from hicache_nsa.demo.results import DemoResult
from hicache_nsa.demo.runner import Demo
from hicache_nsa.demo.settings import DemoSettings

PAGE = 64


def settings(
    *, shots: int = 4, questions: int = 4, own_shots: bool = False, file: Path | None = None,
    **options: object,
) -> DemoSettings:  # fmt: skip
    plan = PromptPlan(shots, questions, own_shots, file)
    return DemoSettings(plan=plan, tokenizer="bytes", layers=2, **options)  # type: ignore[arg-type]


def run(made: DemoSettings, corrupt: Callable[[HiCache], None] | None = None) -> DemoResult:
    with Demo(made) as demo:
        return demo.run(corrupt=corrupt)


def assert_claims(result: DemoResult) -> None:
    """What the demo is there to show (the pools hold everything)."""
    cold, device, after_flush = result.runs
    for one in result.runs:
        assert one.prompt_tokens == cold.prompt_tokens > 0
        parts = one.device_hit_tokens + one.host_hit_tokens + one.computed_tokens
        assert parts == one.prompt_tokens
        assert one.output_sha256 == cold.output_sha256
    assert cold.host_hit_tokens == device.host_hit_tokens == 0
    assert after_flush.computed_tokens == device.computed_tokens < cold.computed_tokens
    assert after_flush.host_hit_tokens == cold.computed_tokens - device.computed_tokens
    assert result.pages_compared * PAGE == after_flush.host_hit_tokens
    assert result.outputs_identical
    assert result.bytes_identical
    assert result.passed


@pytest.mark.parametrize("layout", ["layer_first", "page_first", "page_first_direct"])
def test_layouts(layout: str) -> None:
    assert_claims(run(settings(layout=layout)))


@pytest.mark.parametrize("kv_dtype", ["bf16", "fp8", "fp32"])
def test_kv_dtypes(kv_dtype: str) -> None:
    assert_claims(run(settings(questions=2, kv_dtype=kv_dtype)))


def test_shared_shots_are_computed_once() -> None:
    result = run(settings())
    cold = result.runs[0]
    assert cold.answers[0].device_hit_tokens == 0
    assert all(answer.device_hit_tokens > 2 * PAGE for answer in cold.answers[1:])


def test_own_shots_come_back_from_host() -> None:
    result = run(settings(own_shots=True))
    assert_claims(result)
    cold, _, after_flush = result.runs
    assert cold.device_hit_tokens == after_flush.device_hit_tokens == 0
    assert after_flush.host_hit_tokens >= 0.9 * after_flush.prompt_tokens


def test_an_answer_longer_than_a_page() -> None:
    result = run(settings(questions=2, max_new_tokens=PAGE + 10))
    assert_claims(result)
    assert all(len(answer.generated) == PAGE + 10 for answer in result.runs[2].answers)


@needs_gsm8k
def test_gsm8k() -> None:
    assert_claims(run(settings(shots=3, file=GSM8K)))


def test_every_answer_is_some_other_text() -> None:
    answers = [answer.generated for answer in run(settings(max_new_tokens=6)).runs[0].answers]
    assert len(set(answers)) == len(answers)


def test_a_device_pool_for_one_request_at_a_time() -> None:
    # Evictions in every run: host hits are had in the second run already, and nothing differs.
    result = run(settings(own_shots=True, device_pages=40))
    assert result.passed
    assert result.runs[1].host_hit_tokens > 0


def test_a_host_pool_for_half_of_it() -> None:
    whole = run(settings(questions=2, own_shots=True))
    half = whole.pages_compared // 2 * 2 * (PAGE * 656 + 8448)
    result = run(settings(questions=2, own_shots=True, host_size=half))
    assert result.passed
    assert result.pages_compared <= whole.pages_compared // 2
    assert result.runs[2].computed_tokens > whole.runs[2].computed_tokens


@pytest.mark.parametrize("own_shots", [False, True])
def test_a_device_pool_too_small_for_a_request_is_refused(own_shots: bool) -> None:
    with Demo(settings(own_shots=own_shots)) as demo:
        slots = max(map(len, demo.prompts)) + DemoSettings().max_new_tokens - 1
    least = -(-slots // PAGE)
    with pytest.raises(ValueError, match=f"--device-pages must be at least {least}, .* got 5"):
        run(settings(own_shots=own_shots, device_pages=5))
    with pytest.raises(ValueError, match=f"must be at least {least}"):
        run(settings(own_shots=own_shots, device_pages=least - 1))
    assert run(settings(own_shots=own_shots, device_pages=least)).passed


def test_a_host_pool_of_less_than_a_page_is_refused() -> None:
    page_bytes = 2 * (PAGE * 656 + 8448)
    for size in (0, 10, page_bytes - 1):
        with pytest.raises(ValueError, match=f"--host-size must be at least {page_bytes} bytes"):
            run(settings(host_size=size))


def test_a_host_pool_of_one_page_keeps_the_last_prompts_page_for_too_short() -> None:
    page_bytes = 2 * (PAGE * 656 + 8448)
    result = run(settings(questions=2, own_shots=True, host_size=page_bytes))
    assert result.kept_host_tokens == PAGE
    assert result.runs[2].host_hit_tokens == 0
    assert result.passed  # the device pool and the outputs are as they should be


def test_a_failed_load_is_a_miss() -> None:
    failed = 0

    def fail_one(cache: HiCache) -> None:
        testing.fail_next(cache, "h2d", after_pages=1)

    with Demo(settings(own_shots=True)) as demo:
        result = demo.run(corrupt=fail_one)
        failed = demo.cache.stats().failed_loads
    assert failed == 1
    assert result.passed


def test_a_load_that_fails_again_and_again_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    load_back = HiCache.load_back

    def failing(cache: HiCache, *arguments: object, **options: object) -> object:
        testing.fail_next(cache, "h2d")
        return load_back(cache, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(HiCache, "load_back", failing)
    with pytest.raises(TransferError):
        run(settings(questions=2))


def test_interrupt_keeps_what_is_done() -> None:
    steps = 0

    def interrupt(name: str) -> None:
        nonlocal steps
        steps += 1
        if steps == 6:
            raise KeyboardInterrupt

    with Demo(settings()) as demo:
        result = demo.run(interrupt)
    assert [len(one.answers) for one in result.runs] == [4, 2]
    assert result.interrupted
    assert result.outputs_identical
    assert not result.passed


@pytest.mark.parametrize(("question", "refused"), [("short", True), ("x" * 100, False)])
def test_prompts_shorter_than_a_page_are_refused(
    tmp_path: Path, question: str, refused: bool
) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"question": "{question}"}}\n')
    asked = settings(shots=0, questions=1, file=file)
    if refused:
        with pytest.raises(PromptsError, match="prompts too short for a page: the longest has 23"):
            run(asked)
    else:
        assert run(asked).passed


def test_a_prompt_of_exactly_a_page_is_refused(tmp_path: Path) -> None:
    # Its last token is always computed, so the page never comes back.
    file = tmp_path / "rows.jsonl"
    frame = len("Question: \nAnswer:")
    for tokens, refused in ((PAGE, True), (PAGE + 1, False)):
        file.write_text(f'{{"question": "{"x" * (tokens - frame)}"}}\n')
        asked = settings(shots=0, questions=1, file=file)
        if refused:
            with pytest.raises(PromptsError, match="for 65 or more"):
                run(asked)
        else:
            assert run(asked).runs[2].host_hit_tokens == PAGE
