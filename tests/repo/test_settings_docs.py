"""docs/settings.md has every knob with its default, and none that does not exist."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
from layout import PACKAGE, ROOT

import hicache_nsa as hc
from hicache_nsa import formats
from hicache_nsa.engine_options import ENGINE_OPTIONS, PLAIN_OPTIONS
from hicache_nsa.integrations.linking import options as linking
from hicache_nsa.integrations.offloading import options as offloading
from hicache_nsa.pools.memory_options import UNKEPT_OPTIONS, HostMemoryOptions
from hicache_nsa.timeline import Timeline

TEXT = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
NEEDED = object()
CALLS = (hc.HiCache, hc.LoadBack, hc.TransferEngine, hc.Ticket, hc.PageIndex, hc.HostPool)
HOOKS_OF_TESTS = {"TransferEngine.fail_next(after_pages)"}
ENGINE_GROUPS = [
    ", ".join(f"`{name}`" for name in group) for group in (UNKEPT_OPTIONS, PLAIN_OPTIONS)
]
VARIABLE = re.compile(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+")


def section(title: str) -> str:
    """All below a heading, up to the next one that is as high."""
    level = re.match(r"#+", title)
    assert level is not None
    start = TEXT.index(f"\n{title}\n") + len(title) + 2
    end = re.search(rf"^#{{2,{len(level[0])}}} ", TEXT[start:], re.MULTILINE)
    return TEXT[start : start + end.start()] if end else TEXT[start:]


def rows(title: str, columns: int = 4) -> list[list[str]]:
    """The cells of all tables below a heading, without heads."""
    lines = [line for line in section(title).splitlines() if line.startswith("| `")]
    cells = [[cell.strip() for cell in line.strip()[1:-1].split("|")] for line in lines]
    assert cells and {len(row) for row in cells} == {columns}, title
    return cells


def documented(title: str) -> dict[str, str]:
    """Name to the cell of its default."""
    found = {row[0].removesuffix(r" \*").strip("`"): row[2] for row in rows(title)}
    assert len(found) == len(rows(title)), f"{title}: a name stands twice"
    return found


def parameters(call: Callable[..., Any]) -> dict[str, Any]:
    """Name to default of all that are not ``self`` or ``**keywords``."""
    return {
        name: NEEDED if each.default is inspect.Parameter.empty else each.default
        for name, each in inspect.signature(call).parameters.items()
        if name != "self" and each.kind is not inspect.Parameter.VAR_KEYWORD
    }


def of_fields(options: type, leave_out: Iterable[str] = ()) -> dict[str, Any]:
    return {
        field.name: NEEDED if field.default is MISSING else field.default
        for field in fields(options)
        if field.name not in leave_out
    }


def prefixed(prefix: str, given: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}.{name}": default for name, default in given.items()}


def of_methods(owner: type) -> dict[str, Any]:
    """What has a default in the public methods of a class."""
    return {
        f"{owner.__name__}.{name}({parameter})": default
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
        for parameter, default in parameters(method).items()
        if default is not NEEDED
    }


def compare(title: str, wanted: dict[str, Any]) -> None:
    said = documented(title)
    assert sorted(said) == sorted(wanted), title
    for name, default in wanted.items():
        if default is NEEDED:
            assert said[name].startswith(("needed", "one of both is needed")), name
            continue
        first = re.match(r"`([^`]+)`(?:[: ]|$)", said[name])
        assert first is not None, f"{name}: {said[name]!r} names no default"
        if callable(default):
            assert first[1] == f"{default.__module__}.{default.__name__}", name
        else:
            value = ast.literal_eval(first[1])
            assert (type(value), value) == (type(default), default), name


def test_hicache() -> None:
    compare("## HiCache", parameters(hc.HiCache))


def test_host_memory() -> None:
    compare("## Host memory", of_fields(HostMemoryOptions))


def test_transfer_engine() -> None:
    compare("## Transfer engine", parameters(hc.TransferEngine))
    starred = re.findall(r"^\| `(\w+)` \\\* \|", section("## Transfer engine"), re.MULTILINE)
    assert sorted(starred) == sorted(ENGINE_OPTIONS)


def test_pools_and_index() -> None:
    classes = (hc.HostPool, hc.DevicePool, hc.PageIndex)
    wanted = [prefixed(each.__name__, parameters(each)) for each in classes]
    compare("## Pools and PageIndex alone", {k: v for each in wanted for k, v in each.items()})


def test_formats() -> None:
    calls = (formats.dsa, formats.mla, formats.mha, formats.from_hf_config)
    wanted = [prefixed(each.__name__, parameters(each)) for each in calls]
    compare("## Formats", {k: v for each in wanted for k, v in each.items()})


def test_single_calls() -> None:
    wanted = {name: default for each in CALLS for name, default in of_methods(each).items()}
    compare("## Of single calls", {k: v for k, v in wanted.items() if k not in HOOKS_OF_TESTS})


def test_timeline_and_events() -> None:
    pytest.importorskip("zmq")
    pytest.importorskip("msgspec")
    from hicache_nsa.kv_events import KvEventPublisher

    wanted = of_methods(Timeline) | prefixed("KvEventPublisher", parameters(KvEventPublisher))
    compare("## Timeline and KV events", wanted)


def test_transformers() -> None:
    pytest.importorskip("transformers")
    from hicache_nsa.integrations.transformers import PrefixCache, prefix_cache

    compare("### transformers", parameters(PrefixCache.__init__))
    refused = section("### transformers").partition("|")[0]
    assert [name for name in prefix_cache._OWN if f"`{name}`" not in refused] == []


def engine_rows(title: str) -> list[str]:
    return [row[0] for row in rows(title) if ", " in row[0]]


def test_sglang() -> None:
    assert engine_rows("### SGLang") == ENGINE_GROUPS
    own = {n for n in linking.NAMES if n not in (*UNKEPT_OPTIONS, *PLAIN_OPTIONS)}
    wanted = of_fields(linking.LinkerOptions, ("memory", "engine")) | {
        "write_policy": "write_through"
    }
    assert own == set(wanted)
    said = documented("### SGLang")
    assert {name for name in said if ", " not in name} == own
    _compare_rows("### SGLang", wanted)


def test_vllm() -> None:
    assert engine_rows("### vLLM") == ENGINE_GROUPS
    wanted = of_fields(offloading.OffloadingOptions, ("memory", "engine"))
    assert {name for name in documented("### vLLM") if ", " not in name} == set(wanted)
    _compare_rows("### vLLM", wanted)


@pytest.mark.parametrize("page", ["sglang.md", "vllm.md"])
def test_the_pages_of_engines_name_every_option(page: str) -> None:
    text = (ROOT / "docs" / "integrations" / page).read_text(encoding="utf-8")
    own = set(linking.NAMES) if page == "sglang.md" else set(offloading._NAMES)
    assert [name for name in sorted(own) if f"`{name}`" not in text] == []


def _compare_rows(title: str, wanted: dict[str, Any]) -> None:
    said = documented(title)
    for name, default in wanted.items():
        if default is NEEDED:
            assert said[name] == "one of both is needed", name
        else:
            first = said[name].split("`")[1]
            assert ast.literal_eval(first) == default, name


def variables_of(path: Path) -> set[str]:
    """Texts of the form of a variable's name in a module that asks for the environment."""
    text = path.read_text(encoding="utf-8")
    if "environ" not in text:
        return set()
    texts = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return {each for each in texts if isinstance(each, str) and VARIABLE.fullmatch(each)}


def test_environment_variables() -> None:
    read = {name for path in PACKAGE.rglob("*.py") for name in variables_of(path)}
    for folder in ("cpp", "bench/cpp"):
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".cpp", ".h", ".cu") and "tests" not in path.parts:
                read |= set(re.findall(r'getenv\("(\w+)"', path.read_text(encoding="utf-8")))
    said = {row[0].strip("`") for row in rows("## Environment variables", 3)}
    assert {"XDG_CACHE_HOME", "LOCAL_WORLD_SIZE"} <= read
    assert said == read


def test_options_of_cmake() -> None:
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    switches = re.findall(r'^option\((\w+) "[^"]*" (\w+)\)', text, re.MULTILINE)
    switches += re.findall(r'^set\((\w+) "(\w*)" CACHE STRING', text, re.MULTILINE)
    switch = (ROOT / "cpp" / "cmake" / "cuda_switch.cmake").read_text(encoding="utf-8")
    switches += re.findall(r'set\((\w+) "([^"]+)" CACHE STRING', switch)
    switches += re.findall(r"set\((CMAKE_BUILD_TYPE) (\w+) CACHE STRING", text)
    table = section("## Building").partition("Variables of make")[0]
    cells = re.findall(r"^\| `(\w+)` \| .+? \| (.+?) \| ", table, re.MULTILINE)
    said = {name: default.strip("`").replace("empty", "") for name, default in cells}
    assert len(switches) >= 9
    assert said == dict(switches)


def test_variables_of_make() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    wanted = dict(re.findall(r"^(\w+) \?= ?(.*)$", text, re.MULTILINE))
    table = section("## Building").partition("Variables of make")[2]
    said = dict(re.findall(r"^\| `(\w+)` \|(?: (.*?))? \| [^|]+ \|$", table, re.MULTILINE))
    assert set(said) == set(wanted)
    assert said.pop("JOBS") == "the cores" and "nproc" in wanted.pop("JOBS")
    assert {name: default.strip("`") for name, default in said.items()} == wanted


def test_files() -> None:
    from hicache_nsa import link_curve
    from hicache_nsa.memory_budget import claims

    said = " ".join(row[0] for row in rows("## Files", 3))
    source = inspect.getsource(link_curve)
    assert '"hicache-nsa" / f"link-' in source and "hicache-nsa/link-*.json" in said
    assert '"measuring.lock"' in source and "hicache-nsa/measuring.lock" in said
    assert f"/memfd:{claims._NAME}:" in said
    host_file = (ROOT / "cpp" / "core" / "host_file.cpp").read_text(encoding="utf-8")
    assert '".set-aside-"' in host_file and "HOST_FILE.set-aside-N" in said


def test_every_logger_is_named() -> None:
    found = set()
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for name in re.findall(r"getLogger\((.+?)\)", path.read_text(encoding="utf-8")):
            found.add(module if name == "__name__" else name.strip('"'))
    assert found
    assert [name for name in sorted(found) if f"`{name}`" not in TEXT] == []
