"""Importing the adapter without SGLang, with one that is too old, and with one that is untested."""

from __future__ import annotations

import logging
import subprocess
import sys
from importlib.util import find_spec

import pytest

from hicache_nsa.integrations.linking import live

WITHOUT = """
import sys
sys.meta_path.insert(0, type("No", (), {"find_spec": lambda *a: None})())
sys.path_importer_cache.clear()
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *a: None if name == "sglang" else find(name, *a)
import hicache_nsa.integrations.sglang
"""


def test_without_sglang_the_import_error_names_extra_and_versions() -> None:
    run = subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True)
    assert run.returncode == 1
    last = run.stderr.strip().splitlines()[-1]
    assert last.startswith(
        "ImportError: hicache_nsa.integrations.sglang needs SGLang: sglang 0.5.23"
    )
    assert "sglang 0.5.23 or newer" in last
    assert "pip install 'hicache-nsa[sglang]'" in last


def test_the_engine_is_not_imported_by_what_needs_none() -> None:
    code = "import sys, hicache_nsa.integrations.linking.core; print('sglang' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False"]
    assert live.invalidate_all() >= 0


@pytest.mark.skipif(find_spec("sglang") is None, reason="SGLang isn't installed")
def test_versions(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from hicache_nsa.integrations.sglang import installed

    assert installed.release("0.5.23.post1") == (0, 5, 23)
    installed.require_sglang()
    monkeypatch.setattr(installed, "installed_version", lambda: "0.5.4")
    with pytest.raises(ImportError, match=r"sglang 0.5.4 has no external linkers.*0.5.23 or newer"):
        installed.require_sglang()
    missing = ImportError("No module named 'sglang.srt.x'", name="sglang.srt.x")
    assert "sglang 0.5.4 has no external linkers" in str(installed.without_linkers(missing))
    other = ImportError("No module named 'orjson'", name="orjson")
    assert installed.without_linkers(other) is other
    monkeypatch.setattr(installed, "installed_version", lambda: "0.6.0")
    installed.require_sglang()
    with caplog.at_level(logging.WARNING):
        installed.warn_untested()
    assert "sglang 0.6.0 is not among the versions" in caplog.text
