"""docs/metrics.md lists the metrics that there are, and its code runs."""

import socket

from layout import ROOT
from test_docs_code import blocks, run_blocks

from hicache_nsa.metrics.table import METRICS, PREFIX, Metric

TEXT = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
ENDS = {"counter": "_total", "gauge": "", "info": "_info", "histogram": ""}
PORT = "9400"


def row(metric: Metric) -> str:
    """The metric's line of the table."""
    labels = "; ".join(
        f"`{name}`" if values[0][0] == "<" else f"`{name}`: {', '.join(values)}"
        for name, values in metric.labels
    )
    name = PREFIX + metric.name + ENDS[metric.type]
    return f"| `{name}` | {metric.type} | {labels} | {metric.help} |"


def test_the_table_is_that_of_the_code() -> None:
    head = "| series | type | labels | what |\n|---|---|---|---|\n"
    _, _, rest = TEXT.partition(head)
    assert rest.partition("\n\n")[0].splitlines() == [row(metric) for metric in METRICS]


def test_its_blocks_run_one_after_the_other() -> None:
    assert TEXT.count(f"start_http_server({PORT}, ") == 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    run_blocks(TEXT.replace(f"start_http_server({PORT}, ", f"start_http_server({port}, "))
    assert len(blocks(TEXT)) == 4
