"""An engine that is missing, or of another version, is an ImportError with a next step."""

import importlib
import sys
from importlib import metadata

import pytest

from hicache_nsa.integrations.engine_package import major_minor, require_engine


def install(monkeypatch: pytest.MonkeyPatch, installed: dict[str, str]) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise metadata.PackageNotFoundError(name)
        return installed[name]

    monkeypatch.setattr(metadata, "version", version)


def require() -> str:
    return require_engine("Engine", ("engine", "engine-cpu"), ("1.9", "1.10"), extra="eng")


@pytest.mark.parametrize("name", ["engine", "engine-cpu"])
@pytest.mark.parametrize("version", ["1.9.3", "1.10.0.dev3+gabc", "1.10.0+cpu"])
def test_a_supported_version(monkeypatch: pytest.MonkeyPatch, name: str, version: str) -> None:
    install(monkeypatch, {name: version})
    assert require() == version


@pytest.mark.parametrize("version", ["1.8.9", "1.11.0", "1.1.0", "2.9", "unknown"])
def test_another_version(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    install(monkeypatch, {"engine": version})
    with pytest.raises(ImportError, match=rf"Engine {version} .* supported: 1\.9\.x, 1\.10\.x"):
        require()


def test_none(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, {})
    with pytest.raises(ImportError, match=r"engine or engine-cpu.*1\.9\.x.*hicache-nsa\[eng\]"):
        require()


def test_versions_are_numbers() -> None:
    assert [major_minor(v) for v in ("0.32.0", "0.32", "00.032.1", "v0.32")] == [
        "0.32", "0.32", "0.32", "",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("installed", "message"),
    [
        ({}, r"vLLM is not installed.*0\.32\.x, 0\.33\.x.*hicache-nsa\[vllm\]"),
        ({"vllm": "0.31.2"}, r"vLLM 0\.31\.2 is not supported.*0\.32\.x, 0\.33\.x"),
    ],
)
def test_the_vllm_adapter_says_so(
    monkeypatch: pytest.MonkeyPatch, installed: dict[str, str], message: str
) -> None:
    adapter = "hicache_nsa.integrations.vllm"
    for name in [name for name in sys.modules if name.startswith(adapter)]:
        monkeypatch.delitem(sys.modules, name)
    install(monkeypatch, installed)
    with pytest.raises(ImportError, match=message):
        importlib.import_module(adapter)
