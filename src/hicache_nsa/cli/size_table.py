"""What ``hicache size`` found, for people."""

from __future__ import annotations

from collections.abc import Sequence

from hicache_nsa.cli.columns import columns
from hicache_nsa.sizes import format_size
from hicache_nsa.sizing import FORMULA, Bandwidth, LoadTime, ModelRow, SizeReport, TierSize


def rows_text(rows: Sequence[ModelRow]) -> list[str]:
    """The known models, one a line."""
    tiers = [f"tokens on {tier.tier}" for tier in rows[0].tiers]
    table = [["model", "format", "layers", "bytes a token", "bytes a page", *tiers]]
    for row in rows:
        format = row.format
        tokens = [f"{tier.tokens:,}" for tier in row.tiers]
        table.append(
            [row.model, format.name, f"{format.num_layers}", _bytes(format.token_bytes),
             f"{format.page_bytes:,}", *tokens]
        )  # fmt: skip
    last = "--model NAME says more of one; --config config.json takes any other."
    return [*columns(table, left=2), "", f"Pages of {rows[0].format.page_size} tokens. {last}"]


def report_text(report: SizeReport) -> list[str]:
    """One model: buffers, tiers, loads, break-even."""
    format = report.format
    lines = [
        f"{report.model} ({report.source}): {format.name}, {format.num_layers} layers, "
        f"pages of {format.page_size} tokens",
        "",
        *columns(_buffers(report)),
    ]
    if report.tiers:
        lines += ["", *columns(_tiers(report.tiers))]
    lines += ["", *columns(_loads(report.loads)), ""]
    return [*lines, *_speed(report), *_break_even(report)]


def _buffers(report: SizeReport) -> list[list[str]]:
    size = report.format.page_size
    table = [["buffer", "layers", "bytes a token", "bytes a page"]]
    for buffer in report.format.buffers:
        nbytes = len(buffer.layers) * buffer.page_bytes
        table.append([buffer.name, f"{len(buffer.layers)}", _bytes(nbytes / size), f"{nbytes:,}"])
    total = report.format
    return [*table, ["all", "", _bytes(total.token_bytes), f"{total.page_bytes:,}"]]


def _tiers(tiers: Sequence[TierSize]) -> list[list[str]]:
    table = [["tier", "size", "pages", "tokens", "bytes left over"]]
    for tier in tiers:
        table.append(
            [tier.tier, format_size(tier.nbytes), f"{tier.pages:,}", f"{tier.tokens:,}",
             f"{tier.unused_bytes:,}"]
        )  # fmt: skip
    return table


def _loads(loads: Sequence[LoadTime]) -> list[list[str]]:
    table = [["prefix", "pages", "size", "load", "recompute"]]
    for load in loads:
        table.append(
            [f"{load.tokens:,} tokens", f"{load.pages:,}", format_size(load.nbytes),
             _time(load.seconds), _time(load.recompute_seconds)]
        )  # fmt: skip
    return table


def _speed(report: SizeReport) -> list[str]:
    rate = report.bandwidth
    if not isinstance(rate, Bandwidth):
        return [f"Load times are unknown: {rate.reason}"]
    return [
        f"Load: an estimate, {1e3 * report.fixed.seconds:g} ms ({report.fixed.source}) and the "
        f"bytes at {rate.bytes_per_second / 1e9:.1f} GB/s ({rate.source})."
    ]


def _break_even(report: SizeReport) -> list[str]:
    even = report.break_even
    if even is None:
        missing = "a bandwidth" if not isinstance(report.bandwidth, Bandwidth) else "--prefill-rate"
        return [f"Break-even length: unknown without {missing}."]
    beside = "Neither the computing beside a load nor attention that grows with length is in it."
    if even.tokens is None:
        return [
            f"Break-even, an estimate: none. At {even.prefill_rate:,g} tokens/s computing a token "
            f"takes no longer than loading it. {beside}"
        ]
    return [
        f"Break-even, an estimate: {even.tokens:,} tokens at {even.prefill_rate:,g} tokens/s "
        f"= {FORMULA}. {beside}"
    ]


def _bytes(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else f"{number:,.2f}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return f"{1e3 * seconds:.2f} ms" if seconds < 1 else f"{seconds:.2f} s"
