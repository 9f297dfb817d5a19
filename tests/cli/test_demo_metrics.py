"""`hicache demo --metrics-port`: what it serves, when it ends, and which ports it refuses."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from click.testing import CliRunner, Result

from hicache_nsa.cli import metrics_server, progress
from hicache_nsa.cli.app import hicache

SMALL = ["demo", "--questions", "2", "--shots", "3", "--tokenizer", "bytes"]
SMALL += ["--layers", "1", "--max-new-tokens", "2"]
# ^C also where the test's own process ignores it, as one in the background does.
LIKE_A_SHELL = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    "import sys; sys.argv[0] = 'hicache'; from hicache_nsa.cli import main; main()"
)
DEADLINE_SECONDS = 90.0


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(hicache, [*SMALL, *arguments], prog_name="hicache")


@contextmanager
def running(*arguments: str, said: Path) -> Iterator[subprocess.Popen[str]]:
    """A demo in a process of its own; ``said``: a file for its stderr."""
    command = [sys.executable, "-c", LIKE_A_SHELL, *SMALL, *arguments]
    with said.open("w") as stderr:
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        try:
            yield demo
        finally:
            demo.kill()
            demo.communicate()


def wait_for(pattern: str, demo: subprocess.Popen[str], said: Path) -> str:
    """The first group of ``pattern`` once stderr has it."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        found = re.search(pattern, said.read_text(encoding="utf-8"))
        if found:
            return found[1]
        assert demo.poll() is None, said.read_text(encoding="utf-8")
        time.sleep(0.05)
    raise AssertionError(said.read_text(encoding="utf-8"))


def read(url: str) -> str:
    with build_opener(ProxyHandler({})).open(url, timeout=DEADLINE_SECONDS) as answer:
        return answer.read().decode()


def test_metrics_stay_until_interrupted_and_the_exit_code_is_the_demos(tmp_path: Path) -> None:
    result, said = tmp_path / "out.json", tmp_path / "stderr"
    with running("--metrics-port", "0", "--json", str(result), said=said) as demo:
        url = wait_for(r"Metrics: (http://127\.0\.0\.1:[1-9]\d*/metrics)\n", demo, said)
        wait_for(r"(The demo is over\. Its metrics stay at \S+ until \^C\.)\n", demo, said)
        runs = json.loads(result.read_text(encoding="utf-8"))["runs"]
        assert demo.stdout is not None  # a pipe: what was printed must be out before it is full
        assert any(line.startswith(" after_flush") for line in iter(demo.stdout.readline, ""))
        text = read(url)
        assert demo.poll() is None
        demo.send_signal(signal.SIGINT)
        demo.communicate(timeout=DEADLINE_SECONDS)
    assert demo.returncode == 0
    for source, key in (("device", "device_hit_tokens"), ("host", "host_hit_tokens")):
        tokens = float(sum(run[key] for run in runs))
        assert f'hicache_tokens_total{{source="{source}"}} {tokens}\n' in text
    with pytest.raises(OSError):
        read(url)


def test_they_stay_as_long_as_asked_and_json_is_all_of_stdout() -> None:
    command = [sys.executable, "-m", "hicache_nsa.cli", *SMALL, "--json", "-"]
    command += ["--metrics-port", "0", "--metrics-hold", "1"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_SECONDS)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["interrupted"] is False
    first, last = run.stderr.splitlines()
    assert first.startswith("Metrics: http://127.0.0.1:")
    assert last.endswith("/metrics for 1 s, or until ^C.")


def test_without_a_hold_it_ends_with_the_demo() -> None:
    outcome = invoke("--metrics-port", "0", "--metrics-hold", "0")
    assert outcome.exit_code == 0
    assert "Metrics: http://127.0.0.1:" in outcome.output
    assert "stay" not in outcome.output


def test_an_interrupted_demo_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def interrupting(total: int) -> Iterator[progress.Step]:
        def step(label: str) -> None:
            raise KeyboardInterrupt

        yield step

    monkeypatch.setattr(progress, "progress_bar", interrupting)
    outcome = invoke("--metrics-port", "0")
    assert outcome.exit_code == 1
    assert "Interrupted" in outcome.output
    assert "stay" not in outcome.output


def test_a_demo_that_fails_holds_its_metrics_and_exits_with_1(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hicache_nsa.demo.results.DemoResult.passed", False)
    held: list[int | None] = []
    monkeypatch.setattr(
        metrics_server.MetricsServer, "hold", lambda server, seconds: held.append(seconds)
    )
    assert invoke("--metrics-port", "0", "--metrics-hold", "7").exit_code == 1
    assert held == [7]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metrics-port", "-1"], "'--metrics-port': -1 is not in the range 0<=x<=65535"),
        (["--metrics-port", "65536"], "'--metrics-port': 65536 is not in the range 0<=x<=65535"),
        (["--metrics-port", "http"], "'--metrics-port': 'http' is not a valid integer"),
        (["--metrics-port", "0", "--metrics-hold", "-1"], "'--metrics-hold': -1 is not in the"),
        (["--metrics-port", "0", "--metrics-hold", "inf"], "'--metrics-hold': 'inf' is not a"),
        (["--metrics-hold", "5"], "--metrics-hold needs --metrics-port"),
    ],
)
def test_bad_usage(arguments: list[str], message: str) -> None:
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2
    assert message in " ".join(outcome.output.split())


def test_a_port_in_use_is_refused_before_any_work(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_work(settings: object) -> None:
        raise AssertionError("the demo was made")

    monkeypatch.setattr("hicache_nsa.demo.runner.Demo", no_work)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = invoke("--metrics-port", str(port))
    assert outcome.exit_code == 2
    assert f"port {port} of 127.0.0.1 is in use; name another one, or 0 for a free one" in (
        " ".join(outcome.output.split())
    )


def test_other_refusals_have_a_next_step_too(monkeypatch: pytest.MonkeyPatch) -> None:
    for number, words in ((13, "for root only; name one from 1024 on"), (99, "name another one")):
        error = OSError(number, "what the system says")

        def refuse(*arguments: object, error: OSError = error) -> None:
            raise error

        monkeypatch.setattr("prometheus_client.start_http_server", refuse)
        outcome = invoke("--metrics-port", "80")
        assert outcome.exit_code == 2
        assert words in " ".join(outcome.output.split())


def test_without_the_client_the_extra_is_named() -> None:
    script = "import sys; sys.modules['prometheus_client'] = None; sys.argv[0] = 'hicache'\n"
    script += "from hicache_nsa.cli import main; main()"
    command = [sys.executable, "-c", script, *SMALL, "--metrics-port", "0"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 1
    assert "the demo needs prometheus_client: run pip install 'hicache-nsa[demo]'" in run.stderr
    assert "Traceback" not in run.stderr
