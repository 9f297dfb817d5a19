"""The committed stub of the extension module says what the module has."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hicache_nsa import _core

STUB = Path(__file__).parents[2] / "src" / "hicache_nsa" / "_core.pyi"


def signatures(text: str) -> str:
    """The stub without documentation and layout."""
    tree = ast.parse(text)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, documented) and ast.get_docstring(node):
            node.body = node.body[1:]
    return "\n".join(ast.unparse(node) for node in tree.body)


def test_the_stub_is_current(tmp_path: Path) -> None:
    pytest.importorskip("nanobind")
    fresh = tmp_path / "_core.pyi"
    command = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", _core.__name__, "-o", fresh]
    subprocess.run(command, check=True)
    assert signatures(STUB.read_text()) == signatures(fresh.read_text()), (
        "write it anew: python -m nanobind.stubgen -m hicache_nsa._core"
        " -o src/hicache_nsa/_core.pyi"
    )
