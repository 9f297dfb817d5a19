"""``hicache bench transfer``: copies between the pools against one contiguous copy.

Every round times a contiguous copy of as many bytes and the engine's copy in turn, on each clock
there is; ``share_of_peak`` is the median of the rounds' ratios.

host clock (``seconds_median``, ``gbps``, ``share_of_peak``): from before the call that submits,
until the ticket's ``wait`` has returned, from an idle device: what a caller sees.
device clock (``device_...``; None on the CPU): between two events on an engine's stream that is
still busy when the copy is submitted on it: what a queued load costs behind a running forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from hicache_nsa.bench.bench import Bench
from hicache_nsa.bench.joint import Joint
from hicache_nsa.bench.machine import BOTH
from hicache_nsa.bench.page_runs import mean_run
from hicache_nsa.bench.replayed_pages import replay_trace
from hicache_nsa.bench.report import Row
from hicache_nsa.bench.rig import Copy
from hicache_nsa.bench.rounds import Measured, measure
from hicache_nsa.bench.settings import TransferSettings
from hicache_nsa.bench.transfer_cases import TransferCase, copies_of, pool_pages, transfer_cases

REPLAY_DEVICE_SHARE = 4  # host pages by device pages of a replay


class TransferBench(Bench[TransferCase]):
    """The cases, planned and checked.

    Raises:
        ValueError: settings that can't be measured. HiCacheError: there is no such device.
    """

    def __init__(self, settings: TransferSettings) -> None:
        cases = transfer_cases(settings)
        pool = pool_pages(settings, cases)
        super().__init__(settings, cases, pool)
        replayed = None
        if settings.replay is not None:
            on_device = settings.replay_device or max(1, pool // REPLAY_DEVICE_SHARE)
            replayed = replay_trace(settings.replay, on_device, pool, settings.replay_limit)
        self._copies = {case: copies_of(case, pool, replayed) for case in cases}
        self._joint: Joint | None = None

    def measure(self, case: TransferCase) -> Row:
        """All rounds of one case."""
        machine, copies = self.stand.machine, self._copies[case]
        rig = self.stand.rig(case.layout, case.io_backend)
        joint = self._open_joint() if case.gemm else None
        measured = measure(machine, rig, copies, case.direction, self.settings.rounds, joint)
        nbytes = case.pages * rig.format.page_bytes
        if case.direction != BOTH:
            for seconds in measured.host.contiguous:
                self.report.contiguous(case.direction, nbytes, seconds)
        return _row(case, copies, nbytes * len(copies), measured, rig.verified(copies))

    def _open_joint(self) -> Joint:
        if self._joint is None:
            from hicache_nsa.bench.cuda_gemm import GemmStream
            from hicache_nsa.bench.cuda_machine import CudaMachine

            assert isinstance(self.stand.machine, CudaMachine)
            self._joint = Joint(self.stand.machine, GemmStream(self.stand.machine))
        return self._joint


def _row(
    case: TransferCase, copies: Sequence[Copy], nbytes: int, measured: Measured, verified: bool
) -> Row:
    host, device = measured.host, measured.device
    on_device = bool(device.copies)
    return {
        "id": case.id,
        "direction": case.direction,
        "bytes": nbytes,
        "seconds_median": host.seconds,
        "gbps": nbytes / host.seconds / 1e9,
        "share_of_peak": median(host.shares),
        "share_spread": [min(host.shares), max(host.shares)],
        "device_seconds_median": device.seconds if on_device else None,
        "device_gbps": nbytes / device.seconds / 1e9 if on_device else None,
        "device_share_of_peak": median(device.shares) if on_device else None,
        "device_share_spread": [min(device.shares), max(device.shares)] if on_device else None,
        "device_submit_hidden": measured.hidden if on_device else None,
        "submit_us": 1e6 * median(measured.submits),
        "submit_us_worst": 1e6 * max(measured.submits),
        "way": measured.host_taken.names,
        "device_way": measured.device_taken.names,
        **{key: value for key, value in asdict(case).items() if key != "direction"},
        "host_run_mean": mean_run(copies[0].host_pages),
        "device_run_mean": mean_run(copies[0].device_pages),
        "merged_runs": measured.host_taken.runs_a_copy,
        **(measured.joint.row() if measured.joint is not None else {}),
        "verified": verified,
    }
