"""Memory: the budget, NUMA nodes, huge pages, shared memory."""

from __future__ import annotations

from hicache_nsa.doctor.facts import HugePages, Memory, Numa, SharedMemory
from hicache_nsa.doctor.system import System, number_list, whole_number
from hicache_nsa.memory_budget import budget, local_ranks_of, read_limits

NODES = "/sys/devices/system/node"
HUGE = "/sys/kernel/mm/hugepages"
TRANSPARENT = "/sys/kernel/mm/transparent_hugepage/enabled"
SHARED = "/dev/shm"


def read_memory(system: System) -> Memory:
    """The limits, and what they allow one more pool."""
    limits = read_limits(system.root)
    ranks = local_ranks_of(None, system.environ)
    return Memory(limits, budget(limits, ranks.number), ranks.source)


def read_numa(system: System) -> Numa:
    """The machine's nodes, and where this process may be."""
    distances, cpus = {}, {}
    for name in system.names(NODES, "node[0-9]*"):
        node = whole_number(name.removeprefix("node"))
        if node is not None:
            row = [whole_number(word) for word in system.text(f"{NODES}/{name}/distance").split()]
            distances[node] = tuple(number for number in row if number is not None)
            cpus[node] = number_list(system.text(f"{NODES}/{name}/cpulist"))
    status = dict(
        line.partition(":")[::2] for line in system.text("/proc/self/status").splitlines()
    )
    return Numa(
        distances,
        cpus,
        number_list(status.get("Mems_allowed_list", "")),
        number_list(status.get("Cpus_allowed_list", "")),
    )


def read_huge_pages(system: System) -> HugePages:
    """The setting of transparent ones, and the explicit ones by size."""
    chosen = [word for word in system.text(TRANSPARENT).split() if word.startswith("[")]
    explicit = {}
    for name in system.names(HUGE, "hugepages-*kB"):
        kib = whole_number(name.removeprefix("hugepages-").removesuffix("kB"))
        total = whole_number(system.text(f"{HUGE}/{name}/nr_hugepages"))
        free = whole_number(system.text(f"{HUGE}/{name}/free_hugepages"))
        if kib is not None and total is not None and free is not None:
            explicit[kib << 10] = (total, free)
    return HugePages(chosen[0].strip("[]") if chosen else None, explicit)


def read_shared_memory(system: System) -> SharedMemory:
    """The room of /dev/shm."""
    try:
        room = system.space(system.path(SHARED))
    except OSError:
        return SharedMemory(None, None)
    return SharedMemory(room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize)
