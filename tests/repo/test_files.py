import re
from pathlib import Path

from layout import ROOT, text_files

CODE = {".py", ".cpp", ".hpp", ".h", ".cu", ".cuh"}
MOST_LINES = 400
# An absolute path: /, a name, and more below it, not in the middle of a path, a URL or a tag. Those
# that are the same on every system are allowed, and one that is nowhere.
EVERYWHERE = "proc|dev|usr|etc|sys|nowhere"
ABSOLUTE = rf"(?<![\w.\-~*/<)\]}}])/(?!(?:{EVERYWHERE})/)[A-Za-z][\w.-]*/[\w.-]*"
# Put together here so that this file does not name them itself.
HOSTS = ["pypi" + r"\.org", "python" + "hosted", r"registry\.npm" + "js", r"deb\.deb" + "ian"]
LEFT_OVER = ["TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error"]


def lines_with(patterns: list[str], files: list[Path]) -> list[str]:
    wanted = re.compile("|".join(patterns))
    return [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if wanted.search(line)
    ]


def test_files_are_found() -> None:
    names = {str(path.relative_to(ROOT)) for path in text_files()}
    assert {"README.md", "Makefile", "src/hicache_nsa/errors.py", "cpp/CMakeLists.txt"} <= names


def test_no_file_is_too_long() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in text_files()
        if path.suffix in CODE
    }
    assert {name: n for name, n in lengths.items() if n > MOST_LINES} == {}


def test_no_machine_paths_and_no_registry_hosts() -> None:
    assert lines_with([ABSOLUTE, *HOSTS], text_files()) == []


def test_the_rule_for_paths() -> None:
    somewhere = "/" + "srv/data.txt"
    for line in (somewhere, f"open('{somewhere}')", f"cd {somewhere}", f"-I{somewhere} x"[2:]):
        assert re.search(ABSOLUTE, line), line
    for line in (
        *("/usr/bin/env", "'/proc/meminfo'", "src/a/b.py", "../shared/x", "a / b / c", "./a/b/c"),
        *("https://example.org/a/b", "</text></svg>", "${ROOT}/cpp/core", "// a comment/here/too"),
    ):
        assert not re.search(ABSOLUTE, line), line


def test_nothing_is_left_to_do() -> None:
    assert lines_with(LEFT_OVER, [path for path in text_files() if path.suffix in CODE]) == []


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by name."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
