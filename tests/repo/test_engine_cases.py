"""Reported failures that are ruled out again in SGLang's adapter: tests and list agree."""

import re

from layout import ROOT

ENGINES = ROOT / "tests" / "integrations"
LIST = (ROOT / "tests" / "cases" / "README.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (F\d\d) \| [^|]+ \| \.\./integrations/([^|]+) \|$", re.MULTILINE)


def test_ids_of_engine_tests_are_listed() -> None:
    found = {
        (name.upper(), str(path.relative_to(ENGINES)))
        for path in (ENGINES / "sglang_linker").glob("test_*.py")
        for name in re.findall(r"def test_(f\d\d)_", path.read_text(encoding="utf-8"))
    }
    listed = {(name, file) for name, files in ROW.findall(LIST) for file in files.split(", ")}
    assert listed == found
