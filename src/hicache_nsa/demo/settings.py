"""What a demo run is asked to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from hicache_nsa.demo.prompts import PromptPlan


@dataclass(frozen=True, slots=True)
class DemoSettings:
    """Options of ``hicache demo``; sizes left None are worked out from the prompts.

    ``tokenizer``: bytes, deepseek, a path, or None for the default. ``host_size`` as in HiCache
    ("512MiB", "2GB" or bytes). ``threads``: torch's compute threads, 0 for torch's own choice.
    """

    plan: PromptPlan = field(default_factory=PromptPlan)
    tokenizer: str | None = None
    max_new_tokens: int = 8
    layers: int = 4
    kv_dtype: str = "fp8_ds_mla"
    page_size: int = 64
    layout: str = "page_first"
    device: str = "cpu"
    device_pages: int | None = None
    host_size: str | int | None = None
    seed: int = 0
    threads: int = 0
