"""One load beside a computing stream, recorded: what ``hicache bench overlap --timeline`` writes.

Half way through the layers a save of other pages starts behind what is computed by then, so that
the file shows both directions. It is apart from the rounds that are timed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hicache_nsa.bench.machine import Machine, Queue
from hicache_nsa.bench.rig import Copy, Rig, wait_for
from hicache_nsa.streams import Stream
from hicache_nsa.transfer import D2H, Ticket

SAVED_SHARE = 4  # the save has a quarter of the load's pages, at least one


def write_recorded_load(
    machine: Machine, rig: Rig, copy: Copy, compute: Queue, pool: int, path: Path
) -> None:
    """Load ``copy`` beside the layers that ``compute`` queues, and write the timeline to ``path``.

    pool: pages of each pool. The pages of the save are changed; those of the load are not used.

    Raises:
        OSError: the file can't be written.
    """
    timeline = rig.engine.timeline
    save, layers = _save(copy, pool), rig.format.num_layers
    marks = machine.marks()
    tickets: list[Ticket] = []

    def forward(stream: Stream) -> None:
        tickets.extend(rig.submit([copy], stream))
        for layer in range(layers):
            tickets[0].wait_layer(layer, stream)
            marks.mark(stream)
            compute(stream)
            marks.mark(stream)
            if save is not None and layer == layers // 2:
                tickets.extend(rig.submit([save], stream))

    timeline.start()
    try:
        machine.timed(forward)
        wait_for(tickets)
        times = marks.times()
        for layer in range(layers):
            timeline.add(f"layer {layer}", times[2 * layer], times[2 * layer + 1])
    finally:
        timeline.stop()
    about = {"device": machine.device, **machine.describe(), "layers": layers}
    timeline.write(path, about)


def _save(copy: Copy, pool: int) -> Copy | None:
    """A save of pages that the load leaves alone; None if there are none."""
    host = np.setdiff1d(np.arange(pool), copy.host_pages)
    device = np.setdiff1d(np.arange(pool), copy.device_pages)
    count = min(max(len(copy.host_pages) // SAVED_SHARE, 1), len(host))
    if count == 0:
        return None
    return Copy(D2H, host[:count], device[:count], beside_compute=copy.beside_compute)
