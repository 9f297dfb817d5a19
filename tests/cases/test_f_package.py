"""F35: the extension needs neither torch nor a CUDA runtime, and says what it has."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import hicache_nsa as hc
from hicache_nsa import _core

BYTES = Path(_core.__file__).read_bytes()  # symbol and library names stand in it as they are


def test_f35_no_symbol_of_torch():
    assert re.findall(rb"_ZNK?(?:St\d+)?(?:3c10|2at|5torch)\w*", BYTES) == []
    assert b"_Znwm" in BYTES  # such names are found


def test_f35_no_library_is_needed_that_a_bare_machine_lacks():
    needed = {name.decode() for name in re.findall(rb"lib[\w+-]+\.so[.\d]*(?=\0)", BYTES)}
    assert "libc.so.6" in needed
    bare = re.compile(r"lib(c|m|dl|rt|pthread|stdc\+\+|gcc_s)\.so\.\d+")
    looked_up = {"libcuda.so.1"} if _core.build_info()["cuda"] else set()  # by the static runtime
    assert [name for name in needed - looked_up if not bare.fullmatch(name)] == []


def test_f35_import_works_without_torch():
    code = """
import sys
class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "cuda", "transformers"):
            raise ImportError(f"{name} is not installed")
sys.meta_path.insert(0, NoTorch())
import hicache_nsa as hc
with hc.HiCache(hc.formats.dsa(2, page_size=4), device_pages=4, host_pages=4) as cache:
    cache.insert(range(8), cache.allocate(2))
    assert cache.drain(30) and cache.evict_device(8) == 8
    assert cache.match_prefix(range(8)).host_tokens == 8
assert "torch" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_f35_a_device_that_is_not_there_is_named():
    """No backend, no driver or fewer GPUs: the message names the device and what is missing."""
    missing = "CUDA GPU|GPUs?" if _core.build_info()["cuda"] else "no CUDA backend"
    with pytest.raises(hc.HiCacheError, match=rf"device='cuda:99'.*({missing})"):
        hc.HiCache(hc.formats.dsa(2), device="cuda:99", device_pages=4, host_pages=4)
