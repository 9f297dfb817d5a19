"""The estimate of the time to first token, against layers that pass two machines one by one."""

from __future__ import annotations

import numpy as np
import pytest

from hicache_nsa.simulate.estimate import TtftEstimate
from hicache_nsa.sizing import Bandwidth


def by_layers(load: float, compute: float, layers: int) -> float:
    landed = done = 0.0
    for _ in range(layers):
        landed += load / layers
        done = max(done, landed) + compute / layers
    return done


@pytest.mark.parametrize("layers", [1, 2, 61])
@pytest.mark.parametrize("host", [0, 64, 6_400, 640_000])
def test_it_is_that_of_layers_one_by_one(host: int, layers: int) -> None:
    estimate = TtftEstimate(Bandwidth(50e9, "given"), 10_000.0, 48_068, layers)
    tokens, device = np.array([host + 1000]), np.array([300])
    (seconds,) = estimate.seconds(tokens, device, np.array([host]))
    assert seconds == pytest.approx(by_layers(host * 48_068 / 50e9, 700 / 10_000, layers))


def test_one_token_is_computed_at_least() -> None:
    estimate = TtftEstimate(Bandwidth(50e9, "given"), 1000.0, 1, 4)
    assert estimate.seconds(np.array([64]), np.array([64]), np.array([0])) == pytest.approx(1e-3)
    assert "an estimate" in str(estimate.to_json()["stated"])
