"""Options that say which model's pages a command is about."""

from __future__ import annotations

from pathlib import Path

import click

KV_DTYPES = ("fp8_ds_mla", "bf16", "fp8", "fp16", "fp32")
MOST_PAGE_SIZE = 65_536

config_option = click.option(
    "--config",
    type=click.Path(exists=True, path_type=Path),
    metavar="config.json",
    help="Any other model: its config of Hugging Face, or the folder that has it.",
)
kv_dtype_option = click.option(
    "--kv-dtype",
    type=click.Choice(KV_DTYPES),
    help="Format of the rows.  [default: fp8_ds_mla with an indexer, else bf16]",
)
page_size_option = click.option(
    "--page-size",
    type=click.IntRange(1, MOST_PAGE_SIZE),
    default=64,
    show_default=True,
    help="Tokens a page.",
)
