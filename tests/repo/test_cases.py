"""Every id of a reported failure can be looked up, and every one that is listed as tested is."""

import re

from layout import ROOT

CASES = ROOT / "tests" / "cases"
ELSEWHERE = ("gpu", "integrations", "engine_vllm", "ranks", "memory", "events")
OWN_LIST = "sglang_linker"  # a folder whose cases stand in a table of their own, and its test
TESTED, WAITING = (
    (CASES / "README.md").read_text(encoding="utf-8").split("## Waiting for a later part")
)
ROW = re.compile(r"^\| (F\d\d) \| .*\d.* \| .* \| (.*) \|$", re.MULTILINE)


def test_tested_ids_are_those_of_the_tests() -> None:
    files = {path.name: path for path in CASES.glob("test_*.py")}
    tests = ROOT / "tests"
    for folder in ELSEWHERE:
        paths = (tests / folder).rglob("test_*.py")
        files |= {
            f"../{path.relative_to(tests)}": path for path in paths if OWN_LIST not in path.parts
        }
    found = {
        (name.upper(), file)
        for file, path in files.items()
        for name in re.findall(r"def test_(f\d\d)_", path.read_text(encoding="utf-8"))
    }
    listed = dict(ROW.findall(TESTED))
    assert set(listed) == {name for name, _ in found}
    named = {(name, file) for name, files in listed.items() for file in files.split(", ")}
    assert named <= found
    assert {(name, file) for name, file in found if file.startswith("../")} <= named


def test_no_id_is_listed_twice() -> None:
    ids = [name for name, _ in ROW.findall(TESTED) + ROW.findall(WAITING)]
    assert ids == [*dict.fromkeys(ids)]
    assert sorted(ids) == [f"F{number:02d}" for number in range(1, 53)]
