"""Draw one load beside compute from a timeline: what the model does, what it waits for, the copies.

hicache bench overlap --device cuda --work gemm --ratios 1 --timeline load.json
python bench/draw_timeline.py load.json docs/load_beside_compute.svg

Needs matplotlib (the extra `plot`). Time 0 is when the load was submitted.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

INCHES, DPI = (9.375, 3.0), 96  # 900 pixels wide
GREEN, RED, BLUE, ORANGE = "#2f8f5b", "#c8453b", "#3b6fb6", "#c9772b"
INK, PAPER = "#24292f", "#ffffff"  # its own ground: the page around it may be light or dark
TRACKS = (
    ("compute", "compute", GREEN),
    ("waits", "waits for\na layer", RED),
    ("H2D", "host →\ndevice", BLUE),
    ("D2H", "device →\nhost", ORANGE),
)
BAR = 0.72  # of a track's height
LABEL_WIDTH, CHARACTER_WIDTH = 0.006, 0.005  # of the whole width


@dataclass(frozen=True)
class Slice:
    """A span of the file; times in milliseconds since the load was submitted."""

    row: str
    name: str
    begin: float
    end: float
    args: dict[str, Any]


def read_slices(document: dict[str, Any]) -> list[Slice]:
    """All spans, in time.

    Raises:
        ValueError: there is no load in the file that has ended.
    """
    events = document["traceEvents"]
    rows = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans = [e for e in events if e["ph"] == "X"]
    queued = [e["ts"] for e in spans if rows[e["tid"]] == "H2D, queued"]
    copied = [e for e in spans if rows[e["tid"]].split(",")[0] == "H2D"]
    if not any(e["name"].startswith("copy ") for e in copied):
        raise ValueError("the file has no load (host to device) in it that has ended")
    origin = min([*queued, *(e["ts"] for e in copied)])
    found = [
        Slice(
            rows[e["tid"]],
            e["name"],
            (e["ts"] - origin) / 1e3,
            (e["ts"] + e["dur"] - origin) / 1e3,
            e["args"],
        )
        for e in spans
    ]
    return sorted(found, key=lambda each: each.begin)


def on_track(slices: Sequence[Slice], track: str) -> list[Slice]:
    """What is drawn there: layers of copies, calls, waits; not what was queued."""
    return [s for s in slices if s.row.split(",")[0] == track and not s.row.endswith("queued")]


def draw(document: dict[str, Any], path: Path) -> None:
    """Write the picture; its kind is told by the ending of ``path``."""
    slices = read_slices(document)
    drawn = {track: on_track(slices, track) for track, _, _ in TRACKS}
    end = max(each.end for members in drawn.values() for each in members)
    matplotlib.rcParams["svg.fonttype"] = "none"
    matplotlib.rcParams["svg.hashsalt"] = "hicache"  # the same file gives the same picture
    figure = Figure(figsize=INCHES, dpi=DPI, facecolor=PAPER)
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0.085, 0.17, 0.9, 0.68), facecolor=PAPER)
    for place, (track, _, colour) in enumerate(TRACKS):
        draw_track(axes, -place, drawn[track], colour, end)
    axes.set_xlim(-0.01 * end, 1.01 * end)
    axes.set_ylim(-len(TRACKS) + 0.5, 0.5)
    axes.set_yticks([-i for i in range(len(TRACKS))], [title for _, title, _ in TRACKS])
    axes.tick_params(axis="y", length=0, labelsize=9, labelcolor=INK)
    axes.tick_params(axis="x", labelsize=9, labelcolor=INK, color=INK)
    axes.set_xlabel("ms since the load was submitted", fontsize=9, color=INK)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.grid(visible=True, axis="x", alpha=0.25)
    axes.set_axisbelow(True)
    figure.text(0.012, 0.93, title(document, drawn), fontsize=10, color=INK)
    metadata = {"Date": None} if path.suffix == ".svg" else None
    figure.savefig(path, metadata=metadata, facecolor=PAPER)


def draw_track(axes: Axes, place: int, members: Sequence[Slice], colour: str, end: float) -> None:
    """Bars of one track. A copy is a frame around its layers."""
    for each in members:
        length, frame = each.end - each.begin, each.name.startswith("copy ")
        axes.broken_barh(
            [(each.begin, length)],
            (place - BAR / 2, BAR),
            facecolor="none" if frame else colour,
            edgecolor=colour if frame else PAPER,
            linewidth=1.2 if frame else 0.4,
        )
        label = "" if frame else fitting(short(each.name), length / end)
        axes.text(
            each.begin + length / 2, place, label,
            ha="center", va="center", fontsize=7, color=PAPER, clip_on=True,
        )  # fmt: skip


def fitting(label: str, share: float) -> str:
    """The label of a bar that takes that share of the width: of narrow ones each fifth layer."""
    needed = LABEL_WIDTH + CHARACTER_WIDTH * len(label)
    fifth = label.isdigit() and int(label) % 5 == 0 and share > needed / 2
    return label if share > needed or fifth else ""


def short(name: str) -> str:
    """``layer 7`` as 7, ``layers 0 to 3`` as 0-3; other names as they are."""
    layers = re.fullmatch(r"layers? (\d+)(?: to (\d+))?", name)
    return "-".join(filter(None, layers.groups())) if layers else name


def title(document: dict[str, Any], drawn: dict[str, list[Slice]]) -> str:
    """One line: what was loaded, how long it took, and how long computing stood still for it."""
    about = document["otherData"]
    load = next(each for each in drawn["H2D"] if each.name.startswith("copy "))
    gigabytes = load.args["bytes"] / 1e9
    waited = sum(each.end - each.begin for each in drawn["waits"])
    milliseconds = load.end - load.begin
    return (
        f"{about.get('gpu', 'CPU backend')}: {load.args['pages']} pages ({gigabytes:.2g} GB, "
        f"{about.get('layers', '?')} layers) loaded in {milliseconds:.1f} ms beside compute, "
        f"which waited {waited:.1f} ms; bars are layers"
    )


def main() -> None:
    """Read the file, draw the picture; exit code 2 for a file that has no load in it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline", type=Path, help="a file written by --timeline")
    parser.add_argument("picture", type=Path, help="an .svg or .png")
    arguments = parser.parse_args()
    try:
        draw(json.loads(arguments.timeline.read_text(encoding="utf-8")), arguments.picture)
    except (OSError, ValueError, KeyError) as error:
        print(f"{arguments.timeline}: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
