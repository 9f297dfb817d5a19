"""The source distribution has what `make test` needs."""

import subprocess
import sys
import tarfile
from pathlib import Path

from layout import FOLDERS, ROOT


def test_the_sdist_can_be_tested(tmp_path: Path) -> None:
    code = "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], cwd=ROOT, check=True, capture_output=True
    )
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    wanted = {"Makefile", "README.md", "LICENSE", "CONTRIBUTING.md", "CMakeLists.txt"}
    wanted |= {"pyproject.toml", ".pre-commit-config.yaml", ".clang-format"}
    wanted |= {
        ".ci/debian-packages",
        ".ci/prometheus",
        ".ci/run",
        ".ci/vllm",
        "examples/questions.jsonl",
        "bench/results/demo_default.json",
    }
    assert wanted - names == set()
    assert {name.partition("/")[0] for name in names} >= set(FOLDERS)
    assert [name for name in names if name.startswith((".venv", "build/", ".git/"))] == []
