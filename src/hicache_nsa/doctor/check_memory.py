"""Checks of host memory. Pure."""

from __future__ import annotations

from hicache_nsa.doctor.chosen_gpu import chosen_pci
from hicache_nsa.doctor.facts import INTERRUPTED, Facts
from hicache_nsa.doctor.finding import Finding, fail, ok, warn
from hicache_nsa.formats.models import model_format
from hicache_nsa.memory_budget import MemoryLimit
from hicache_nsa.sizes import format_size

GIB = 1 << 30
SMALL_POOL = GIB
SMALL_SHARED = GIB
LOCAL_DISTANCE = 10
MACHINE = "/proc/meminfo"


def check_memory(facts: Facts) -> Finding:
    """The largest pool that fits now, by the budget that every pool asks."""
    memory = facts.memory
    room = memory.budget
    if not memory.limits.memory:
        return warn(
            "no limit was found",
            "A pool is not refused before it is mapped, however large it is.",
            "give every cache memory_limit=",
        )
    format = model_format("deepseek-v3.2")
    pages = room.allowed // format.page_bytes
    found = f"{format_size(room.allowed)} for one pool, by {room.explain(memory.ranks)}"
    meaning = (
        f"The largest host pool: {pages:,} pages, {pages * format.page_size:,} tokens of "
        "DeepSeek-V3.2 (docs/memory.md)."
    )
    fix = f"free memory, or raise the limit of {room.source}"
    if pages == 0:
        return fail(found, "Not one page fits.", fix)
    if room.allowed < SMALL_POOL:
        return warn(found, meaning, fix)
    return ok(found, meaning)


def check_cgroup(facts: Facts) -> Finding:
    """Whether a control group allows much less than the machine has."""
    limits = facts.memory.limits.memory
    groups = [limit for limit in limits if not limit.source.startswith(MACHINE)]
    machine = [limit for limit in limits if limit.source.startswith(MACHINE)]
    if not groups:
        return ok("no limit on memory", "What the machine has counts.")
    tight = min(groups, key=_available)
    found = f"{tight.source}: {format_size(tight.total)}, {format_size(tight.available)} available"
    whole = min(map(_available, machine), default=0)
    if 2 * tight.available < whole:
        return warn(
            found,
            f"The machine has {format_size(whole)} available: a host tier could be larger.",
            "raise the container's memory limit (docker run --memory, resources.limits.memory)",
        )
    return ok(found, "It leaves at least half of what the machine has available.")


def check_locked_memory(facts: Facts) -> Finding:
    """RLIMIT_MEMLOCK, beside what could be page-locked."""
    limit, measured = facts.locked.limit, facts.measured
    found = "unlimited" if limit is None else f"{format_size(limit)} (RLIMIT_MEMLOCK)"
    if not facts.on_gpu:
        return ok(found, "The CPU backend locks no memory.")
    if limit is None:
        return ok(found, "A pool may be page-locked whole.")
    if measured.problem is None and facts.cuda.problem is None:
        return ok(
            found,
            "NVIDIA's driver does not count what CUDA page-locks, pools of any size; RDMA "
            "libraries and mlock count.",
        )
    if facts.cuda.problem is not None or measured.problem == INTERRUPTED:
        return ok(found, "Nothing was page-locked under it to see whether it counts.")
    return fail(
        found,
        "Copies failed, and this may be why: a pool is page-locked.",
        "ulimit -l unlimited (docker run --ulimit memlock=-1)",
    )


def check_numa(facts: Facts) -> Finding:
    """Whether this process is near the GPU."""
    numa = facts.numa
    nodes = sorted(numa.distances)
    if len(nodes) < 2:
        return ok("one node" if nodes else "no nodes", "All memory is equally near.")
    found = f"{len(nodes)} nodes"
    if not facts.on_gpu:
        return ok(found, "The CPU backend copies wherever its threads run.")
    gpu = chosen_pci(facts)
    node = gpu.node if gpu is not None else None
    if node is None or node not in numa.distances:
        return warn(
            f"{found}, the GPU's is unknown",
            "Memory of a far node loads more slowly, and nothing says which is far.",
            "nvidia-smi topo -m may show it: give the cache numa=N (numa='auto' cannot find it), "
            "and start with numactl --cpunodebind=N",
        )
    row = dict(zip(nodes, numa.distances[node], strict=False))
    found = f"{found}, the GPU is on {node}; distances from there: " + ", ".join(
        f"{other}: {distance}" for other, distance in row.items()
    )
    near = f"start with numactl --cpunodebind={node}"
    if numa.allowed_nodes and node not in numa.allowed_nodes:
        return warn(
            found,
            "This process gets no memory of the GPU's node, and numa='auto' cannot take it there.",
            f"let it have node {node} (numactl --membind, docker run --cpuset-mems); numa='auto', "
            "the default, takes a pool's pages from there then",
        )
    if numa.allowed_cpus and not numa.allowed_cpus & numa.cpus[node]:
        return warn(
            found,
            "This process runs on none of the cores of the GPU's node. A pool's pages come from "
            "there all the same with numa='auto', the default.",
            near,
        )
    return ok(found, "This process may use the memory and the cores of the GPU's node.")


def check_huge_pages(facts: Facts) -> Finding:
    """The setting of transparent ones; explicit ones that are free."""
    pages = facts.huge_pages
    kinds = [
        f"{format_size(nbytes)}: {free} of {total} free"
        for nbytes, (total, free) in sorted(pages.explicit.items())
        if total
    ]
    found = f"transparent: {pages.transparent or 'not known'}; explicit: "
    found += ", ".join(kinds) or "none"
    if pages.transparent in ("always", "madvise"):
        return ok(found, "Pools get transparent ones: fewer pages to touch and to page-lock.")
    return warn(
        found,
        "Pools lie in small pages: more of them to touch and to page-lock.",
        "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
    )


def check_shared_memory(facts: Facts) -> Finding:
    """The room of /dev/shm, where a pool in a file lies."""
    shared = facts.shared_memory
    fix = "mount a tmpfs there (docker run --shm-size=64g)"
    if shared.total is None or shared.free is None:
        return warn("no /dev/shm", "A pool cannot lie in a memory file there.", fix)
    found = f"/dev/shm: {format_size(shared.free)} of {format_size(shared.total)} free"
    if shared.free < SMALL_SHARED:
        return warn(found, "Too little for a pool in a memory file, for a warm restart.", fix)
    return ok(found, "Room for a pool in a memory file, for a warm restart.")


def _available(limit: MemoryLimit) -> int:
    return limit.available
