"""What of SGLang's configuration is refused at start, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def check_components(components: Iterable[Any]) -> None:
    """ValueError unless the radix cache has plain attention only.

    SWA and Mamba state exists at some boundaries only; it has no pages that a prefix could name.
    """
    names = sorted(str(getattr(c, "name", c)).upper() for c in components)
    others = [name for name in names if name != "FULL"]
    if others:
        raise ValueError(
            f"HiCacheLinker does not support models with {', '.join(others)} components; "
            "supported: FULL attention (DeepSeek-V3.2, GLM-5, plain MLA and MHA models)"
        )


def check_parallelism(params: Any, dcp_size: int) -> None:
    """ValueError for what ranks do not agree on, or do not hold whole pages in."""
    if getattr(params, "pp_size", 1) > 1:
        raise ValueError(
            f"HiCacheLinker does not support pipeline parallelism (pp_size={params.pp_size}): "
            "SGLang's stages do not agree on what an external linker finds; use tensor parallelism"
        )
    if dcp_size > 1:
        raise ValueError(
            f"HiCacheLinker does not support decode context parallelism (attn_dcp_size={dcp_size})"
        )


def check_server(server_args: Any, hooked: bool) -> None:
    """ValueError for server options under which a load could not work or a copy would be unsafe.

    hooked: whether ``hooks`` are installed.
    """
    if getattr(server_args, "disaggregation_mode", "null") == "decode":
        raise ValueError(
            "HiCacheLinker does not support --disaggregation-mode decode: SGLang loads nothing "
            "from an external linker there; supported: no disaggregation, prefill"
        )
    if getattr(server_args, "enable_linker_mla_dedup", False):
        raise ValueError("HiCacheLinker does not support --enable-linker-mla-dedup")
    if getattr(server_args, "enable_memory_saver", False) and not hooked:
        raise ValueError(
            "--enable-memory-saver needs the hooks of hicache-nsa: SGLang releases the memory of "
            "its KV pool before it flushes, and copies could be in flight; see the message about "
            "the hooks above"
        )


def draft_pools(params: Any) -> list[Any]:
    """KV pools of a draft model on the target's slots, packed ones first."""
    return [
        *getattr(params, "mtp_draft_device_pools", ()),
        *getattr(params, "sidecar_draft_device_pools", ()),
    ]
