"""A small cache whose metrics are looked at, and the series that the table says it has."""

import itertools

from scrape import Scrape

import hicache_nsa as hc
from hicache_nsa.metrics import METRICS, PREFIX

FORMAT = hc.formats.dsa(3, page_size=4, kv_lora_rank=128, rope_head_dim=4)


def small_cache(**options) -> hc.HiCache:
    return hc.HiCache(FORMAT, **{"device_pages": 16, "host_pages": 16, **options})


def put(cache: hc.HiCache, count: int, first: int = 0) -> None:
    """Insert so many tokens, and wait until they are on host."""
    cache.insert(range(first, first + count), cache.allocate(count // 4))
    assert cache.drain(30)


SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "info": ("_info",),
    "histogram": ("_bucket", "_count", "_sum"),
}


def expected_series(**labels: str) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    """From the table: names with all their labels; ``le`` apart."""
    own = {
        "buffer": tuple(buffer.name for buffer in FORMAT.buffers),
        "version": (hc.__version__,),
        "format": (FORMAT.name,),
        "device": ("cpu",),
        "layout": ("page_first",),
    }
    series = set()
    for metric in METRICS:
        names = [name for name, _ in metric.labels]
        values = [own.get(name, values) for name, values in metric.labels]
        for combination in itertools.product(*values):
            found = frozenset({**labels, **dict(zip(names, combination, strict=True))}.items())
            series |= {(PREFIX + metric.name + end, found) for end in SUFFIXES[metric.type]}
    return series


def series(found: Scrape) -> set[tuple[str, frozenset[tuple[str, str]]]]:
    return {
        (name, frozenset(label for label in labels if label[0] != "le"))
        for name, labels in found.values
    }
