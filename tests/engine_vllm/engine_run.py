"""Real vLLM engines in one process, one after another: runs their steps, writes what came out.

    python engine_run.py RUNS.json RESULTS.json

RUNS.json: a list of runs, {"model": folder, "engine": {arguments of LLM}, "offloading": {...} or
null, "steps": [["generate", [[token ids], ...]], ["reset"], ["reset_all"], ...]}. A prompt list is
given to vLLM at once. RESULTS.json: of each run an entry a step, what the watched workers saw, and
the names of all metrics. On two cores the first engine of a process takes about 12 s to start, each
further one 3.
"""

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

TOP = 3  # logprobs of a token
COUNTERS = {
    "host_hit_tokens": "vllm:external_prefix_cache_hits",
    "device_hit_tokens": "vllm:prefix_cache_hits",
    "preemptions": "vllm:num_preemptions",
    "load_bytes": "vllm:kv_offload_load_bytes",
    "store_bytes": "vllm:kv_offload_store_bytes",
    **{
        f"{name}_chunks": f"vllm:hicache_host_chunks_{name}"
        for name in ("stored", "loaded", "evicted", "refused")
    },
}


def main(runs_file: str, results_file: str) -> None:
    runs = json.loads(Path(runs_file).read_text())
    results = []
    for number, run in enumerate(runs, start=1):
        print(f"engine {number} of {len(runs)}, offloading {run['offloading']}", file=sys.stderr)
        results.append(one_engine(run))
    Path(results_file).write_text(json.dumps(results))


def one_engine(run: dict[str, Any]) -> dict[str, Any]:
    if is_watched(run):
        watch().forget()
    llm = make_engine(run)
    steps = []
    for name, *args in run["steps"]:
        before = counters(llm)
        step = {"generate": generate, "reset": reset, "reset_all": reset_all}[name](llm, *args)
        after = counters(llm)
        steps.append({**step, **{key: after[key] - before[key] for key in after}})
    result = {"steps": steps, "watch": watched(run), "metrics": metric_names(llm)}
    llm.llm_engine.engine_core.shutdown()
    del llm
    gc.collect()  # its KV cache, before the next engine makes one
    return result


def make_engine(run: dict[str, Any]) -> Any:
    from vllm import LLM

    engine = {
        "skip_tokenizer_init": True,
        "block_size": 32,
        "max_model_len": 1024,
        "dtype": "float32",
        "enforce_eager": True,
        "disable_log_stats": False,
        "seed": 0,
        **run["engine"],
    }
    if run["offloading"] is not None:
        engine["kv_transfer_config"] = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": run["offloading"],
        }
    return LLM(run["model"], **engine)


def generate(llm: Any, prompts: list[list[int]], max_tokens: int = 8) -> dict[str, Any]:
    from vllm import SamplingParams

    sampling = SamplingParams(
        max_tokens=max_tokens, temperature=0, logprobs=TOP, detokenize=False, ignore_eos=True
    )
    outputs = llm.generate([{"prompt_token_ids": p} for p in prompts], sampling, use_tqdm=False)
    return {"outputs": [completion(output.outputs[0]) for output in outputs]}


def completion(output: Any) -> dict[str, Any]:
    """Tokens, and of each the logprobs of the likeliest ones as [token, logprob], in full."""
    logprobs = [
        sorted((token, entry.logprob) for token, entry in place.items())
        for place in output.logprobs
    ]
    return {"tokens": list(output.token_ids), "logprobs": logprobs}


def reset(llm: Any) -> dict[str, Any]:
    return {"done": llm.reset_prefix_cache()}


def reset_all(llm: Any) -> dict[str, Any]:
    return {"done": llm.reset_prefix_cache(reset_connector=True)}


def counters(llm: Any) -> dict[str, float]:
    now = {metric.name: getattr(metric, "value", None) for metric in llm.get_metrics()}
    return {key: now.get(name) or 0 for key, name in COUNTERS.items()}


def metric_names(llm: Any) -> list[str]:
    return sorted({metric.name for metric in llm.get_metrics()})


def is_watched(run: dict[str, Any]) -> bool:
    return (run["offloading"] or {}).get("spec_module_path") == "watched_specs"


def watch() -> Any:
    from watched_specs import WATCH

    return WATCH


def watched(run: dict[str, Any]) -> dict[str, int]:
    if not is_watched(run):
        return {}
    seen = watch()
    return {"same": seen.same, "different": seen.different, "repeated": seen.repeated}


if __name__ == "__main__":
    main(*sys.argv[1:])
