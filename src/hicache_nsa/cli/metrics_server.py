"""Metrics by HTTP while a command runs: the port is taken before any work is done."""

from __future__ import annotations

import errno
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from hicache_nsa.cache import HiCache

ADDRESS = "127.0.0.1"  # this machine only: what is shown is nobody else's business
OPTION = "--metrics-port"


class MetricsServer:
    """Shows the metrics of one cache at ``url``, as soon as there is one."""

    def __init__(self, port: int) -> None:
        """Listen on ``port`` (0: a free one). click.BadParameter where that can't be."""
        from prometheus_client import CollectorRegistry, start_http_server

        self._registry = CollectorRegistry()
        try:
            self._server, self._thread = start_http_server(port, ADDRESS, self._registry)
        except OSError as error:
            raise click.BadParameter(_refused(port, error), param_hint=f"'{OPTION}'") from error
        self.url = f"http://{ADDRESS}:{self._server.server_port}/metrics"

    def show(self, cache: HiCache) -> None:
        """Show the metrics of ``cache`` for as long as it is open."""
        from hicache_nsa.metrics import Collector

        self._registry.register(Collector(cache))

    def hold(self, seconds: int | None) -> None:
        """Wait until ^C, at most ``seconds`` where a number is given; 0 waits for nothing."""
        if seconds == 0:
            return
        until = "until ^C" if seconds is None else f"for {seconds:,} s, or until ^C"
        sys.stdout.flush()  # what was found out is to be read meanwhile
        click.echo(f"The demo is over. Its metrics stay at {self.url} {until}.", err=True)
        try:
            threading.Event().wait(seconds)
        except KeyboardInterrupt:
            click.echo(err=True)

    def close(self) -> None:
        """Give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@contextmanager
def metrics_server(port: int | None) -> Iterator[MetricsServer | None]:
    """A server on ``port``, its address told on stderr; None: no server."""
    if port is None:
        yield None
        return
    server = MetricsServer(port)
    click.echo(f"Metrics: {server.url}", err=True)
    try:
        yield server
    finally:
        server.close()


def _refused(port: int, error: OSError) -> str:
    """What is wrong with a port, and the next step."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {ADDRESS} is in use; name another one, or 0 for a free one"
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} is for root only; name one from 1024 on, or 0 for a free one"
    return f"port {port} of {ADDRESS}: {error.strerror}; name another one, or 0 for a free one"
