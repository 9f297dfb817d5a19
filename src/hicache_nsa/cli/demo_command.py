"""``hicache demo``: few-shot questions answered cold, warm, and again after a flush."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from hicache_nsa.cli.json_output import check_target, write_json
from hicache_nsa.cli.metrics_server import MetricsServer, metrics_server
from hicache_nsa.cli.timeline_option import timeline_option
from hicache_nsa.demo.prompts import DEFAULT_QUESTIONS, DEFAULT_SHOTS, PromptPlan
from hicache_nsa.demo.settings import DemoSettings
from hicache_nsa.errors import HiCacheError
from hicache_nsa.extras import install_extra

DEFAULTS = DemoSettings()
EXTRA_MODULES = {"torch", "rich", "tokenizers", "prometheus_client"}
MAX_THREADS = 1024
MAX_LAYERS = 256
MAX_NEW_TOKENS = 65_536
MAX_SEED = 2**63 - 1
MAX_HOLD = 365 * 24 * 3600


@click.command()
@click.option(
    "--prompts",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help='JSON lines with "question" and, for the shots, "answer".  [default: generated problems]',
)
@click.option(
    "--questions",
    type=click.IntRange(min=1),
    help=f"Questions to ask.  [default: {DEFAULT_QUESTIONS}]",
)
@click.option(
    "--shots",
    type=click.IntRange(min=0),
    default=DEFAULT_SHOTS,
    show_default=True,
    help="Worked examples before each question.",
)
@click.option("--own-shots", is_flag=True, help="Other examples for each question: nothing shared.")
@click.option(
    "--tokenizer",
    metavar="bytes|deepseek|PATH",
    help="PATH: a tokenizer.json.  [default: deepseek where it is installed, else bytes]",
)
@click.option(
    "--max-new-tokens",
    type=click.IntRange(min=1, max=MAX_NEW_TOKENS),
    default=DEFAULTS.max_new_tokens,
    show_default=True,
    help="Tokens generated for each question.",
)
@click.option(
    "--layers",
    type=click.IntRange(min=1, max=MAX_LAYERS),
    default=DEFAULTS.layers,
    show_default=True,
    help="Layers of the model.",
)
@click.option(
    "--kv-dtype",
    type=click.Choice(["fp8_ds_mla", "bf16", "fp8", "fp32"]),
    default=DEFAULTS.kv_dtype,
    show_default=True,
    help="Format of the latent rows.",
)
@click.option(
    "--layout",
    type=click.Choice(["layer_first", "page_first", "page_first_direct"]),
    default=DEFAULTS.layout,
    show_default=True,
    help="Order of the host pool.",
)
@click.option(
    "--device-pages",
    type=click.IntRange(min=1),
    help="Pages of the device pool.  [default: all that the prompts need]",
)
@click.option(
    "--host-size",
    metavar="SIZE",
    help='Size of the host pool, as "512MiB".  [default: all that the prompts need]',
)
@click.option(
    "--device",
    type=click.Choice(["cpu", "cuda"]),
    default=DEFAULTS.device,
    show_default=True,
    help="Where model, pages and cache are; cuda: pages come back from pinned host memory.",
)
@click.option(
    "--seed",
    type=click.IntRange(min=0, max=MAX_SEED),
    default=DEFAULTS.seed,
    show_default=True,
    help="Of the weights.",
)
@click.option(
    "--threads",
    type=click.IntRange(min=1, max=MAX_THREADS),
    help="Compute threads.  [default: torch's choice]",
)
@timeline_option("the run after the flush")
@click.option(
    "--metrics-port",
    type=click.IntRange(min=0, max=65_535),
    metavar="PORT",
    help="Show the cache's metrics at http://127.0.0.1:PORT/metrics; 0: a free port.",
)
@click.option(
    "--metrics-hold",
    type=click.IntRange(min=0, max=MAX_HOLD),
    metavar="SECONDS",
    help="How long they are shown after the runs; ^C ends it earlier.  [default: until ^C]",
)
@click.option(
    "--json", "json_target", callback=check_target, metavar="OUT", help="Write JSON; - is stdout."
)
def demo(
    prompts: Path | None,
    questions: int | None,
    shots: int,
    own_shots: bool,
    json_target: str | None,
    timeline: Path | None,
    threads: int | None,
    metrics_port: int | None,
    metrics_hold: int | None,
    **options: object,
) -> None:
    """Answer few-shot questions three times and show what the host tier brings back.

    A small sparse-attention model (random weights, real arithmetic, paged latent and indexer pools)
    answers every question cold, again on the warm device cache, and again after reset(): the device
    cache is flushed, the host copies stay. Exit code 1 if an output or a byte differs, or if pages
    that were saved do not come back.
    """
    if metrics_hold is not None and metrics_port is None:
        raise click.UsageError("--metrics-hold needs --metrics-port")
    plan = PromptPlan(shots, questions, own_shots, prompts)
    settings = DemoSettings(plan=plan, threads=threads or 0, **options)  # type: ignore[arg-type]
    try:
        with metrics_server(metrics_port) as server:
            passed = _run(settings, json_target, timeline, server, metrics_hold)
    except HiCacheError as error:
        raise click.ClickException(str(error)) from error
    except OSError as error:  # standard output or a file can't be written
        raise click.ClickException(str(error)) from error
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_MODULES:
            raise
        raise click.ClickException(f"the demo needs {missing}: {install_extra('demo')}") from error
    sys.exit(0 if passed else 1)


def _run(
    settings: DemoSettings,
    json_target: str | None,
    timeline: Path | None,
    server: MetricsServer | None,
    hold: int | None,
) -> bool:
    # Read when torch is loaded. Its threads would otherwise spin while they wait for each other,
    # which brings the model to a crawl where other work, or our own copies, need a core too.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from hicache_nsa.cli.progress import progress_bar
    from hicache_nsa.demo.runner import Demo
    from hicache_nsa.demo.table import print_lines, print_result

    try:
        prepared = Demo(settings)
    except ValueError as error:  # a prompts file, a tokenizer or a size that cannot be used
        raise click.UsageError(str(error)) from error
    machine = prepared.machine
    if json_target != "-":
        print_lines(prepared.introduction)
    with prepared:
        if server:
            server.show(prepared.cache)
        with progress_bar(prepared.steps) as step:
            result = prepared.run(step, record=timeline is not None)
        if json_target != "-":
            print_result(result)
        if json_target is not None:
            write_json(json_target, result.to_json(), machine)
        if timeline is not None:
            prepared.cache.timeline.write(timeline)
        if server and not result.interrupted:
            server.hold(hold)
    return result.passed
