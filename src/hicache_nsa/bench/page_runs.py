"""Which pages a copy moves: runs of neighbours in shuffled order."""

from __future__ import annotations

import numpy as np

from hicache_nsa.tokens import PageIds


def pages_in_runs(total: int, count: int, run: int, seed: int) -> PageIds:
    """``count`` distinct pages of ``total``, in runs of ``run`` neighbours, the runs shuffled.

    The last run is cut where ``run`` does not divide ``count``. The same seed gives the same pages.

    Raises:
        ValueError: the pool has no room for that many whole runs.
    """
    runs = -(-count // run)
    if runs > total // run:
        raise ValueError(
            f"{count} pages in runs of {run} need {runs * run} pages, the pool has {total}: "
            f"give --pool {runs * run} or more"
        )
    starts = np.random.default_rng(seed).permutation(total // run)[:runs] * run
    return (starts[:, None] + np.arange(run)).reshape(-1)[:count].astype(np.int64)


def mean_run(pages: PageIds) -> float:
    """Pages a run of neighbours, on average, in the order of the copy."""
    breaks = np.count_nonzero(np.diff(pages) != 1)
    return len(pages) / (int(breaks) + 1) if len(pages) else 0.0
