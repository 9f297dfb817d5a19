"""A real Prometheus server on a free port, asked by its HTTP API."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import ProxyHandler, build_opener

import pytest
from monitoring_files import ROOT

UNPACKED = ROOT / "build" / "prometheus" / "usr" / "bin"  # by .ci/prometheus
DEADLINE_SECONDS = 90.0
OPENER = build_opener(ProxyHandler({}))  # past whatever proxy the environment names
T = TypeVar("T")


def binary(name: str) -> str:
    """The path of prometheus or promtool. Without it the test is skipped; in CI it fails."""
    found = shutil.which(name) or shutil.which(name, path=str(UNPACKED))
    if found is None:
        reason = f"needs {name}: bash .ci/prometheus brings it"
        if os.environ.get("HICACHE_PROMETHEUS") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


def wait_for(what: str, look: Callable[[], T | None], explain: Callable[[], str]) -> T:
    """Look until there is something; AssertionError with ``explain()`` after the deadline."""
    end = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < end:
        found = look()
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"no {what} in {DEADLINE_SECONDS:.0f} s:\n{explain()}")


class Server:
    """The HTTP API of a running server."""

    def __init__(self, address: str) -> None:
        self._address = address

    def get(self, path: str, **parameters: str) -> Any:
        """``data`` of an answer; AssertionError with the server's own words where it has none."""
        url = f"http://{self._address}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with OPENER.open(url, timeout=DEADLINE_SECONDS) as answer:
                return json.load(answer)["data"]
        except HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The series of an instant query: ``metric`` has the labels, ``value`` time and number.

        at: a Unix time in seconds; None: now.
        """
        when = {} if at is None else {"time": f"{at:.3f}"}
        return self.get("query", query=expression, **when)["result"]

    def number(self, expression: str, at: float | None = None) -> float | None:
        """The only value of a query; None where it has no series."""
        found = self.query(expression, at)
        assert len(found) <= 1, (expression, found)
        return float(found[0]["value"][1]) if found else None


@contextmanager
def prometheus(config: Path, folder: Path) -> Iterator[Server]:
    """A server with ``config`` that keeps all it writes in ``folder``; it ends with the block."""
    log = folder / "prometheus.log"
    command = [binary("prometheus"), f"--config.file={config}"]
    command += [f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0"]
    with log.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, cwd=folder)
        try:
            yield Server(wait_for("address", lambda: _address(process, log), log.read_text))
        finally:
            stop(process)


def _address(process: subprocess.Popen[bytes], log: Path) -> str | None:
    """Where the server is ready for requests; port 0 is what it was asked for."""
    text = log.read_text(encoding="utf-8")
    assert process.poll() is None, text
    found = re.search(r"address=\"?(127\.0\.0\.1:[1-9]\d*)", text)
    return found[1] if found and "Server is ready to receive web requests" in text else None


def stop(process: subprocess.Popen[Any]) -> None:
    """End a process that a test has started, in any case."""
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
