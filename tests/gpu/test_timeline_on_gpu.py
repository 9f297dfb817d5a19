"""The timeline with a GPU's copies: a load beside compute, as the bench records it; the demo."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner
from gpu_pools import WAYS

from hicache_nsa.cli.app import hicache

sys.path.append(str(Path(__file__).parents[1] / "timeline"))
from trace_format import Slice, read_trace

LAYERS, PAGES = 12, 64
OVERLAP = ["bench", "overlap", "--device", "cuda", "--layers", str(LAYERS), "--rounds", "2"]
OVERLAP += ["--pages", str(PAGES), "--work", "gemm"]
MARGIN = 200_000  # ns between the clocks of the host and of torch's events


def recorded(file: Path, *options: str) -> list[Slice]:
    run = CliRunner().invoke(hicache, [*OVERLAP, *options, "--timeline", str(file)])
    assert run.exit_code == 0, run.output
    return read_trace(file)


@pytest.mark.parametrize("way", ["auto", *WAYS])
@pytest.mark.parametrize("ratio", ["0.3", "2"])
def test_a_load_beside_compute(way: str, ratio: str, tmp_path: Path) -> None:
    slices = recorded(tmp_path / "load.json", "--ratios", ratio, "--io-backend", way)
    for row, pages in (("H2D", PAGES), ("D2H", PAGES // 4)):
        on_row = [each for each in slices if each.row == row]
        (copy,) = (each for each in on_row if each.name.startswith("copy"))
        assert copy.args["pages"] == pages
        assert copy.args["way"] == (way if way != "auto" else copy.args["way"])
        landed = [each for each in on_row if each.name.startswith("layer")]
        layers = [
            layer
            for each in landed
            for layer in range(each.args["first_layer"], each.args["last_layer"] + 1)
        ]
        assert layers == list(range(LAYERS))
        assert landed[-1].end <= copy.end
    computed = [each for each in slices if each.row.startswith("compute")]
    assert [each.name for each in computed] == [f"layer {layer}" for layer in range(LAYERS)]
    for before, after in pairwise(computed):
        assert before.end <= after.begin + MARGIN
    load = next(each for each in slices if each.row == "H2D")
    assert computed[-1].end >= load.begin


def test_the_demo(tmp_path: Path) -> None:
    file = tmp_path / "demo.json"
    arguments = ["demo", "--device", "cuda", "--questions", "2", "--shots", "4", "--layers", "2"]
    run = CliRunner().invoke(hicache, [*arguments, "--timeline", str(file)])
    assert run.exit_code == 0, run.output
    rows = {each.row.split(",")[0] for each in read_trace(file)}
    assert {"scheduler", "compute", "H2D"} <= rows
