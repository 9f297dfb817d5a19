"""Prompts and runs of the engine: what is asked is the same with and without offloading."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from small_llama import VOCABULARY

HERE = Path(__file__).parent
PAGE = 32
Prompt = list[int]
Step = list[Any]


def random_prompt(rng: random.Random, length: int) -> Prompt:
    return [rng.randrange(1, VOCABULARY) for _ in range(length)]


def six_prompts() -> list[Prompt]:
    rng = random.Random(1)
    return [random_prompt(rng, 200 + 7 * i) for i in range(6)]


def sharing_prompts(count: int) -> list[Prompt]:
    """Prompts that begin with a part of one of ten prefixes, each with an end of its own."""
    rng = random.Random(2)
    prefixes = [random_prompt(rng, rng.randrange(64, 320)) for _ in range(10)]
    prompts = []
    for _ in range(count):
        prefix = rng.choice(prefixes)
        cut = rng.choice([len(prefix), rng.randrange(20, len(prefix))])
        length = rng.randrange(5, 90)
        length += (cut + length) % PAGE == 0  # the device's cache never has a prompt's last token
        prompts.append(prefix[:cut] + random_prompt(rng, length))
    return prompts


def in_batches(prompts: list[Prompt], batch: int) -> list[Step]:
    return [["generate", prompts[i : i + batch]] for i in range(0, len(prompts), batch)]


def with_flushes(steps: list[Step], after: int) -> list[Step]:
    """A device-only reset after every ``after`` steps."""
    return [
        step
        for number, own in enumerate(steps, start=1)
        for step in ([own, ["reset"]] if number % after == 0 else [own])
    ]


def engine_run(
    model: Path, steps: list[Step], offloading: dict[str, Any] | None, **engine: Any
) -> dict[str, Any]:
    """What an engine is made of (arguments of LLM in ``engine``) and asked: see engine_run.py."""
    return {"model": str(model), "engine": engine, "offloading": offloading, "steps": steps}


def results_of(folder: Path, runs: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What came out of each run: one engine after another, in a process of their own."""
    done = start_engines(folder, list(runs.values()))
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    results = json.loads((folder / "results.json").read_text())
    return dict(zip(runs, results, strict=True))


def result_of(folder: Path, run: dict[str, Any]) -> dict[str, Any]:
    return results_of(folder, {"run": run})["run"]


def start_engines(folder: Path, runs: list[dict[str, Any]]) -> "subprocess.CompletedProcess[str]":
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runs.json").write_text(json.dumps(runs))
    workers = max(run["engine"].get("tensor_parallel_size", 1) for run in runs)
    return subprocess.run(
        [sys.executable, HERE / "engine_run.py", folder / "runs.json", folder / "results.json"],
        cwd=HERE,
        env={**os.environ, **one_core_each(workers)},
        capture_output=True,
        text=True,
    )


def one_core_each(workers: int) -> dict[str, str]:
    """vLLM binds each of several workers of a CPU to cores that it has to be told."""
    if workers == 1:
        return {}
    cores = sorted(os.sched_getaffinity(0))[:workers]
    return {"VLLM_CPU_OMP_THREADS_BIND": "|".join(str(core) for core in cores)}


def outputs(result: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """Of each step that generates: one output a prompt."""
    return [step["outputs"] for step in result["steps"] if "outputs" in step]


def total(result: dict[str, Any], counter: str) -> float:
    return sum(step[counter] for step in result["steps"])


def differences(
    ours: dict[str, Any], theirs: dict[str, Any], logprob_error: float = 0.0
) -> list[str]:
    """Where two runs differ: a token, or a logprob by more than ``logprob_error``."""
    pairs = list(zip(outputs(ours), outputs(theirs), strict=True))
    found = []
    for step, (mine, other) in enumerate(pairs):
        for prompt, (one, two) in enumerate(zip(mine, other, strict=True)):
            if one["tokens"] != two["tokens"]:
                found.append(f"step {step}, prompt {prompt}: tokens")
            if not logprobs_agree(one["logprobs"], two["logprobs"], logprob_error):
                found.append(f"step {step}, prompt {prompt}: logprobs")
    return found


def logprobs_agree(ours: list[Any], theirs: list[Any], error: float) -> bool:
    """Of each place the same tokens are likeliest, and as likely, but for ``error``."""
    if error == 0.0:
        return ours == theirs
    return all(
        abs(dict(theirs_here)[token] - value) <= error
        for ours_here, theirs_here in zip(ours, theirs, strict=True)
        for token, value in ours_here
        if token in dict(theirs_here)
    )
