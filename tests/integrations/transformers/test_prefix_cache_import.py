"""A transformers that is missing or not supported says so when the adapter is imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

from hicache_nsa.integrations.transformers.installed import require_supported


def message_of(missing: str) -> str:
    """What the import says where ``missing`` isn't installed, in an interpreter of its own."""
    code = f"""
import importlib.metadata as metadata
installed = metadata.version
def version(name):
    if name == {missing!r}:
        raise metadata.PackageNotFoundError(name)
    return installed(name)
metadata.version = version
try:
    import hicache_nsa.integrations.transformers
except ImportError as error:
    print(type(error).__name__, error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return run.stdout


@pytest.mark.parametrize("missing", ["torch", "transformers"])
def test_a_missing_package_names_the_extra(missing: str) -> None:
    message = message_of(missing)
    assert message.startswith("ImportError ")
    assert f"{missing} isn't installed" in message
    assert "hicache-nsa[transformers]" in message
    assert "transformers>=5.17,<6" in message


@pytest.mark.parametrize("version", ["4.57.6", "5.16.1", "6.0.0", "6.0.0rc1", "unknown"])
def test_versions_that_are_refused(version: str) -> None:
    with pytest.raises(ImportError, match=rf"supports transformers>=5\.17,<6, .*{version} is"):
        require_supported(version)


@pytest.mark.parametrize("version", ["5.17.0", "5.24.0", "5.100.1.dev0"])
def test_versions_that_are_supported(version: str) -> None:
    require_supported(version)
