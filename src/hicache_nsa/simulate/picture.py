"""Hit rate against host size, one line a policy, below what no policy exceeds. Needs matplotlib."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from hicache_nsa.simulate.report import Result, SimulationReport
from hicache_nsa.sizes import format_size

GIB = 1 << 30
INCHES = (8.0, 5.0)
MARKERS = "osD^v<>"
THICK, THIN = 4.0, 1.2  # of lines: where two are the same, the later, thinner one lies on the other
Points = list[tuple[float, float]]


def picture_formats() -> Sequence[str]:
    """Endings of files that can be written, without the dot."""
    return sorted(FigureCanvasAgg(Figure()).get_supported_filetypes())


def draw(report: SimulationReport, file: str | Path) -> None:
    """Write the picture; its kind is told by the ending of ``file``.

    Raises:
        OSError: the file can't be written.
    """
    figure = Figure(figsize=INCHES, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    whole = [result for result in report.results if result.bound_hit_tokens is not None]
    for index, (label, points) in enumerate(_lines(whole).items()):
        width = max(THICK - 0.7 * index, THIN)
        _plot(axes, points, label, marker=MARKERS[index % len(MARKERS)], linewidth=width)
    for label, points in _bounds(whole).items():
        _plot(axes, points, label, linestyle="--", color="0.5")
    axes.set_xlabel("host tier, GiB")
    axes.set_ylabel("hit rate, % of the prompt tokens")
    axes.set_ylim(bottom=0)
    axes.grid(visible=True, alpha=0.3)
    trace = report.trace
    axes.set_title(
        f"{Path(trace.source).name}: {len(trace.requests):,} requests, {report.format.name}",
        fontsize="medium",
    )
    if whole:
        axes.legend(fontsize="small")
    figure.savefig(file, dpi=120, metadata=_no_date(file))


def _plot(axes: object, points: Points, label: str, **style: object) -> None:
    x, y = zip(*sorted(points), strict=True)
    axes.plot(x, y, label=label, **style)  # type: ignore[attr-defined]


def _lines(results: Sequence[Result]) -> dict[str, Points]:
    """Points of each policy, write policy and device size; what all share is left out of labels."""
    cases = [result.case for result in results]
    one_write = len({case.write_policy for case in cases}) == 1
    lines: dict[str, Points] = defaultdict(list)
    for result in results:
        case = result.case
        parts = [case.policy] if one_write else [case.policy, case.write_policy]
        parts.append(f"device {format_size(case.device_bytes)}")
        lines[", ".join(parts)].append((case.host_bytes / GIB, _percent(result, result.hit_tokens)))
    return lines


def _bounds(results: Sequence[Result]) -> dict[str, Points]:
    lines: dict[str, dict[float, float]] = defaultdict(dict)
    for result in results:
        label = f"no policy exceeds (Belady), device {format_size(result.case.device_bytes)}"
        bound = _percent(result, result.bound_hit_tokens or 0)
        lines[label][result.case.host_bytes / GIB] = bound
    return {label: list(points.items()) for label, points in lines.items()}


def _percent(result: Result, tokens: int) -> float:
    return 100 * (result.rate(tokens) or 0.0)


def _no_date(file: str | Path) -> dict[str, None] | None:
    """The same report gives the same file."""
    return {"Date": None} if Path(file).suffix == ".svg" else None
