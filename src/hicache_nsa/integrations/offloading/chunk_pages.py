"""Which host pages the chunks of a job are."""

from __future__ import annotations

import numpy as np

from hicache_nsa.tokens import PageIds


def host_pages_of(
    chunks: PageIds, pages_per_chunk: int, first_page: int, num_pages: int
) -> PageIds:
    """Host pages, one for each of a job's device pages, int64 ``[num_pages]``.

    Chunk c is the host pages ``c * pages_per_chunk ..``. first_page: the index in its prompt of the
    first device page; a job may begin inside its first chunk and end inside its last one.

    Raises:
        ValueError: that many pages are not in these chunks.
    """
    skipped = first_page % pages_per_chunk
    needed = -(-(skipped + num_pages) // pages_per_chunk) if num_pages else 0
    if needed != len(chunks):
        raise ValueError(
            f"{num_pages} device pages from page {first_page} of a prompt on need {needed} chunks "
            f"of {pages_per_chunk} pages, got {len(chunks)}"
        )
    pages = chunks[:, None] * pages_per_chunk + np.arange(pages_per_chunk)
    return pages.reshape(-1)[skipped : skipped + num_pages]
