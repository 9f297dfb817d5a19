"""The table of docs/architecture.md has every module, and none that is gone."""

import re

from layout import PACKAGE, ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def rows() -> list[str]:
    """First cells of the table."""
    table = TEXT.partition("\n## Modules\n")[2].partition("\n`_core` is the C++ half")[0]
    return re.findall(r"^\| (`[^|]+) \|", table, re.MULTILINE)


def named() -> list[str]:
    """Modules and, with a slash at the end, folders. ``.../`` is the folder before; ``*`` any."""
    found: list[str] = []
    for row in rows():
        folder = ""
        for name in re.findall(r"`([^`]+)`", row):
            if name.startswith(".../"):
                name = folder + name[4:]
            else:
                folder = name[: name.rindex("/") + 1] if "/" in name else ""
            found.append(name)
    return found


def modules() -> list[str]:
    files = (file.relative_to(PACKAGE).with_suffix("") for file in PACKAGE.rglob("*.py"))
    return sorted(file.as_posix() for file in files if not file.name.startswith("__"))


def stands_for(name: str, module: str) -> bool:
    if name.endswith("/"):
        return module.startswith(name)
    return re.fullmatch(re.escape(name).replace(r"\*", r"\w*"), module) is not None


def test_every_module_has_its_line() -> None:
    missing = [m for m in modules() if not any(stands_for(name, m) for name in named())]
    assert missing == []


def test_no_line_is_of_what_is_gone() -> None:
    gone = [name for name in named() if not any(stands_for(name, m) for m in modules())]
    assert gone == []
    assert len(set(named())) == len(named()) > 150


def test_every_word_is_explained_once() -> None:
    words = TEXT.partition("\n## Words\n")[2].replace("\n", " ")
    explained = re.findall(r"(?:^|[.:*] )([a-z][a-z -]*(?: \([^)]*\))?): ", words)
    twice = {word for word in explained if explained.count(word) > 1}
    assert "page key" in explained and "exposed wait" in explained
    assert twice == set()
