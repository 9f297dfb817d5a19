"""`.ci/prometheus` unpacks the Debian package, installs nothing, and says where it can't."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from layout import ROOT

TOOLS = ("bash", "dirname", "mkdir", "mv", "rm")

APT = """#!/usr/bin/env bash
echo "apt-get $*" >>"$LOG"
case "$1" in
update) touch "$LOG.updated"; exit "$UPDATE_RC" ;;
download) [ -e "$LOG.updated" ] || [ "$KNOWN" = yes ] || exit 100; echo >prometheus_2.42_all.deb ;;
*) exit 99 ;;
esac
"""

DPKG = """#!/usr/bin/env bash
echo "dpkg-deb $1" >>"$LOG"
[ "$1" = -x ] && [ -f "$2" ] || exit 99
mkdir -p "$3/usr/bin"
for name in prometheus promtool; do
    echo "#!/usr/bin/env bash" >"$3/usr/bin/$name"
    echo "exit $SERVER_RC" >>"$3/usr/bin/$name"
    chmod +x "$3/usr/bin/$name"
done
"""

ID = """#!/usr/bin/env bash
[ "$1" = -u ] && echo "$MY_ID" || echo somebody
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A checkout with the script, and its own PATH: what it calls, and an apt that only acts."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "prometheus", tmp_path / ".ci")
    (tmp_path / "bin").mkdir()
    for tool in (*TOOLS, "chmod", "touch"):
        found = shutil.which(tool)
        assert found is not None, tool
        (tmp_path / "bin" / tool).symlink_to(found)
    for name, text in (("apt-get", APT), ("dpkg-deb", DPKG), ("id", ID)):
        script(tmp_path / "bin" / name, text)
    return tmp_path


def script(file: Path, text: str) -> None:
    file.write_text(text)
    file.chmod(0o755)


def run(place: Path, **said: str) -> "subprocess.CompletedProcess[str]":
    env = {"PATH": str(place / "bin"), "LOG": str(place / "log"), "MY_ID": "1000", "KNOWN": "yes"}
    env |= {"UPDATE_RC": "0", "SERVER_RC": "0", **said}
    command = [place / "bin" / "bash", place / ".ci" / "prometheus"]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def called(place: Path) -> list[str]:
    """Which of apt-get and dpkg-deb were called, with their first argument."""
    log = place / "log"
    return (
        [" ".join(line.split()[:2]) for line in log.read_text().splitlines()]
        if log.exists()
        else []
    )


def unpacked(place: Path) -> Path:
    return place / "build" / "prometheus" / "usr" / "bin" / "prometheus"


def test_it_is_unpacked_once_and_nothing_is_installed(place: Path) -> None:
    done = run(place)
    assert (done.returncode, done.stderr) == (0, "")
    assert os.access(unpacked(place), os.X_OK)
    assert called(place) == ["apt-get download", "dpkg-deb -x"]
    assert sorted(path.name for path in (place / "build").iterdir()) == ["prometheus"]
    assert list((place / "build" / "prometheus").iterdir()) == [place / "build/prometheus/usr"]
    assert run(place).returncode == 0
    assert len(called(place)) == 2


def test_a_server_in_path_is_enough(place: Path) -> None:
    for name in ("prometheus", "promtool"):
        script(place / "bin" / name, "#!/usr/bin/env bash\n")
    assert run(place).returncode == 0
    assert called(place) == [] and not unpacked(place).exists()


def test_root_updates_what_apt_knows(place: Path) -> None:
    done = run(place, MY_ID="0", KNOWN="no")
    assert done.returncode == 0
    assert called(place) == [
        "apt-get download",
        "apt-get update",
        "apt-get download",
        "dpkg-deb -x",
    ]
    assert unpacked(place).exists()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"KNOWN": "no"}, "apt-get download prometheus failed"),
        ({"KNOWN": "no", "MY_ID": "0", "UPDATE_RC": "100"}, "apt-get update failed"),
        ({"SERVER_RC": "127"}, "the server of the package does not run here"),
    ],
)
def test_where_it_cannot_be_had_it_says_so_and_goes_on(
    place: Path, said: dict[str, str], reason: str
) -> None:
    done = run(place, **said)
    assert done.returncode == 0
    first, second = done.stderr.splitlines()[-2:]
    assert first.startswith(f"no Prometheus server for tests/monitoring: {reason}")
    assert second.startswith("next step: ") and "these tests are skipped" in second
    assert list((place / "build").iterdir()) == []


def test_a_system_without_apt(place: Path) -> None:
    (place / "bin" / "apt-get").unlink()
    done = run(place)
    assert done.returncode == 0
    assert "this system has no apt-get or no dpkg-deb" in done.stderr


def test_make_calls_it_and_ci_demands_what_it_brings() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "\ntest-python: install-test\n\tbash .ci/prometheus\n" in makefile
    lines = (ROOT / ".ci" / "run").read_text().splitlines()
    assert any(line.startswith("export HICACHE_PROMETHEUS=required") for line in lines[:-2])
