"""Memory of a tree: resident bytes of a fresh process before and after it was filled.

    python -m hicache_nsa.bench.tree.memory '{"subject": ..., "workload": ..., "settings": {...}}'

A process of its own for each figure, so that memory which something else has left cannot be used.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from hicache_nsa.bench.tree.serving import insert_leaves, serve
from hicache_nsa.bench.tree.settings import PAGE_SIZE, TreeSettings
from hicache_nsa.bench.tree.subject import MakeSubject
from hicache_nsa.bench.tree.timing import Figures
from hicache_nsa.bench.tree.workloads import Workloads
from hicache_nsa.errors import HiCacheError

LEAVES, AGENTIC = "leaves", "agentic"
FIRST_USE = 100  # pages


def measure_memory(subject: str, workload: str, settings: TreeSettings) -> Figures:
    """``rss_bytes`` and ``gc_objects`` by which a process grows when a tree is filled.

    Raises:
        HiCacheError: it failed; the message has the last line that it said.
    """
    task = {"subject": subject, "workload": workload, "settings": _plain(settings)}
    command = [sys.executable, "-m", "hicache_nsa.bench.tree.memory", json.dumps(task)]
    ran = subprocess.run(command, capture_output=True, text=True)
    if ran.returncode:
        said = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        raise HiCacheError(f"the process for the memory of {workload} failed: {said[-1]}")
    found: Figures = json.loads(ran.stdout.splitlines()[-1])
    return found


def grown(subject_name: str, workload: str, settings: TreeSettings) -> Figures:
    """The same in this process."""
    from hicache_nsa.bench.tree.peers import make_subject

    make, workloads = make_subject(subject_name), Workloads(settings)
    if workload == LEAVES:
        prompts, pages = list(workloads.leaves), settings.leaves
    else:
        prompts, pages = list(workloads.agentic.inserted), workloads.agentic.pages
    _use_once(make)
    subject = make(pages, 0)
    before, objects = _resident_bytes(), len(gc.get_objects())
    if workload == LEAVES:
        insert_leaves(subject, prompts)
    else:
        serve(subject, prompts, workloads.agentic.expected)
    rss, more = _resident_bytes() - before, len(gc.get_objects()) - objects
    subject.check(pages)
    subject.close()
    return {"rss_bytes": rss, "gc_objects": more, "pages": pages}


def _use_once(make: MakeSubject) -> None:
    """So that what a first use loads and keeps is not taken for the tree's memory."""
    subject = make(FIRST_USE, 0)
    insert_leaves(subject, list(np.arange(FIRST_USE * PAGE_SIZE).reshape(FIRST_USE, PAGE_SIZE)))
    subject.close()


def _resident_bytes() -> int:
    """After what is free was given back to the system, as far as the C library can."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _plain(settings: TreeSettings) -> dict[str, Any]:
    """The sizes as JSON takes them; the files are of no use here."""
    return {**asdict(settings), "prompts": None, "trace": None, "peers": ()}


if __name__ == "__main__":
    task = json.loads(sys.argv[1])
    print(json.dumps(grown(task["subject"], task["workload"], TreeSettings(**task["settings"]))))
