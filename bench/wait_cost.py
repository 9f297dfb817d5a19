"""What measuring exposed waits costs (``time_waits``): one load whose every layer is waited for.

    python bench/wait_cost.py [--json bench/results/cuda_wait_cost.json]

Two engines between the same pools, with ``time_waits`` and without, take turns; each of them is
first in every second round. Medians over the rounds: ``wait_layers_us`` is the host's time in
``wait_layer`` over all layers of a load that has just been submitted, ``landed_us`` the same once
the load is in, ``seconds`` a load on the host's clock, from idle until the stream is behind its
last layer, ``share_of_peak`` the time of a contiguous copy of as many bytes in the same round by
that, ``device_seconds`` a load on the device's clock, queued behind other work. A load of either
engine ends with the bytes compared. ``exposed_waits`` and ``exposed_seconds``: of a load on the
host's clock, as the engine counted them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, field
from itertools import product
from statistics import median
from typing import Any

from hicache_nsa import formats
from hicache_nsa.bench.machine import Machine, open_machine
from hicache_nsa.bench.page_runs import pages_in_runs
from hicache_nsa.bench.pools_under_test import DeviceMemory
from hicache_nsa.bench.rig import Copy, Rig, wait_for
from hicache_nsa.errors import HiCacheError
from hicache_nsa.pools import HostPool
from hicache_nsa.transfer import H2D, IO_BACKENDS, Ticket, TransferEngine
from report import write_report

LAYOUTS = ("page_first", "layer_first")
Row = dict[str, object]


@dataclass
class Engine:
    """One of the two, and what its loads took; a value a round."""

    rig: Rig
    figures: dict[str, list[float]] = field(default_factory=dict)

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)

    def load(self, copy: Copy, stream: Any) -> Ticket:
        """Submit the load and make the stream wait for each of its layers."""
        ticket = self.rig.submit([copy], stream)[0]
        self.note("wait_layers_us", self._wait_layers(ticket, stream))
        return ticket

    def _wait_layers(self, ticket: Ticket, stream: Any) -> float:
        started = time.perf_counter()
        for layer in range(self.rig.format.num_layers):
            ticket.wait_layer(layer, stream)
        return (time.perf_counter() - started) * 1e6

    def round(self, machine: Machine, copy: Copy, plain: float) -> None:
        tickets: list[Ticket] = []
        before = self.rig.engine.counters()[H2D]
        seconds = machine.timed(lambda stream: tickets.append(self.load(copy, stream)))
        wait_for(tickets)
        after = self.rig.engine.counters()[H2D]
        self.note("seconds", seconds)
        self.note("share_of_peak", plain / seconds)
        self.note("exposed_waits", after["exposed_waits"] - before["exposed_waits"])
        self.note("exposed_seconds", (after["exposed_wait_ns"] - before["exposed_wait_ns"]) * 1e-9)
        stream = getattr(machine, "stream", None)
        self.note("landed_us", self._wait_layers(tickets[0], stream))
        if machine.device_clock:
            queued = machine.queued(lambda stream: tickets.append(self.load(copy, stream)))
            self.note("device_seconds", queued[0])
            wait_for(tickets)

    def verified(self, machine: Machine, copy: Copy) -> bool:
        self.rig.poison_targets([copy])
        tickets: list[Ticket] = []
        machine.timed(lambda stream: tickets.append(self.load(copy, stream)))
        wait_for(tickets)
        return self.rig.verified([copy])


def measure(machine: Machine, engines: dict[str, Engine], copy: Copy, rounds: int) -> Row:
    """Figures of both engines, ``on`` and ``off``, for one load."""
    nbytes = len(copy.host_pages) * engines["on"].rig.format.page_bytes
    engines["on"].rig.fill([copy])
    for number in range(rounds + 1):
        if number == 1:  # forget the warm-up
            for engine in engines.values():
                engine.figures.clear()
        turns = list(engines.values())
        for engine in turns if number % 2 else reversed(turns):
            engine.round(machine, copy, machine.contiguous(H2D, nbytes))
    row: Row = {"bytes": nbytes}
    for name, engine in engines.items():
        medians = {key: median(values) for key, values in engine.figures.items()}
        row[name] = {**medians, "verified": engine.verified(machine, copy)}
    return row


def cases(args: argparse.Namespace, machine: Machine) -> list[Row]:
    """All cases, layout by layout."""
    fmt = formats.dsa(args.layers, kv_dtype="fp8")
    pool = args.pool or 2 * max(args.pages)
    memory = DeviceMemory(machine, fmt, pool, False)
    pin = "auto" if machine.device == "cpu" else True
    found = []
    for layout in args.layouts:
        host = HostPool(fmt, pages=pool, layout=layout)
        for way, pages in product(args.io_backends, args.pages):
            made = {}
            try:
                for name in ("on", "off"):
                    made[name] = TransferEngine(
                        memory.pool, host, way, pin_memory=pin, time_waits=name == "on"
                    )
                engines = {name: Engine(Rig(machine, memory, host, made[name])) for name in made}
                copy = Copy(H2D, pages_in_runs(pool, pages, 1, 1), pages_in_runs(pool, pages, 1, 2))
                row = measure(machine, engines, copy, args.rounds)
            finally:
                for engine in made.values():
                    engine.close()
            found.append({"id": f"wait_cost/{layout}/{way}/pages{pages}", **row})
            show(found[-1])
        host.close()
    return found


def show(row: Row) -> None:
    print(row["id"])
    for name in ("on", "off"):
        figures: Any = row[name]
        print(
            f"  {name:<4} wait_layer {figures['wait_layers_us']:.0f} us, landed "
            f"{figures['landed_us']:.0f} us, load {figures['seconds'] * 1e6:.0f} us, share of peak "
            f"{figures['share_of_peak']:.3f}, on the device "
            f"{figures.get('device_seconds', 0) * 1e6:.0f} us, exposed "
            f"{figures['exposed_seconds'] * 1e6:.0f} us in {figures['exposed_waits']:.0f} waits, "
            f"{'right' if figures['verified'] else 'WRONG BYTES'}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", default=None)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=61)
    parser.add_argument("--pages", type=int, nargs="+", default=[8, 64, 512])
    parser.add_argument("--pool", type=int, default=0, help="pages; 0: twice the longest load")
    parser.add_argument("--rounds", type=int, default=31)
    parser.add_argument("--layouts", nargs="+", default=LAYOUTS, choices=LAYOUTS)
    parser.add_argument("--io-backends", nargs="+", default=["auto"], choices=IO_BACKENDS)
    args = parser.parse_args()
    for name in ("layers", "rounds"):
        if getattr(args, name) < 1:
            parser.error(f"--{name} must be 1 or more, got {getattr(args, name)}")
    if min(args.pages) < 1 or 0 < args.pool < max(args.pages) or args.pool < 0:
        parser.error(f"--pages {args.pages} must be 1 or more, and --pool {args.pool} hold them")
    try:
        machine = open_machine(args.device, 2)
        rows = cases(args, machine)
    except (HiCacheError, ValueError) as error:
        parser.error(str(error))
    write_report(
        args.json, "python bench/wait_cost.py", rows, machine=machine.describe(), rounds=args.rounds
    )
    machine.close()
    if not all(row[name]["verified"] for row in rows for name in ("on", "off")):  # type: ignore
        raise SystemExit("bytes are wrong")


if __name__ == "__main__":
    main()
