"""What the doctor found, for people."""

from __future__ import annotations

import click

from hicache_nsa.doctor import FAIL, OK, WARN, DoctorReport

COLOURS = {OK: "green", WARN: "yellow", FAIL: "red"}  # click leaves them out off a terminal
VERDICT_WIDTH = max(map(len, COLOURS))


def report_text(report: DoctorReport) -> list[str]:
    """Each line of the report: verdict, name and what is there; below it meaning and fix."""
    width = max(map(len, report.lines), default=0)
    indent = " " * (VERDICT_WIDTH + width + 4)
    text = []
    for name, line in report.lines.items():
        verdict = click.style(line.verdict.ljust(VERDICT_WIDTH), fg=COLOURS[line.verdict])
        text += [f"{verdict}  {name.ljust(width)}  {line.found}", f"{indent}{line.meaning}"]
        if line.fix is not None:
            text.append(f"{indent}Fix: {line.fix}")
    counts = ", ".join(f"{report.count(verdict)} {verdict}" for verdict in COLOURS)
    text += ["", f"{report.device}: {counts}."]
    return [*text, "Interrupted: nothing was measured."] if report.interrupted else text
