"""F49: what Prometheus is told of hits, loads and evictions is what happened."""

from case_cache import FORMAT, LONG, CaseCache
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from test_f_eviction import prompts

from hicache_nsa.metrics import Collector


class Exported:
    """The series of one cache, by way of the text that Prometheus gets."""

    def __init__(self, c: CaseCache) -> None:
        self._registry = CollectorRegistry()
        self._registry.register(Collector(c.cache))

    def __call__(self, name: str, **labels: str) -> float:
        """The sum of the series of that name that have these labels."""
        text = generate_latest(self._registry).decode()
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == f"hicache_{name}" and labels.items() <= sample.labels.items()
        ]
        assert found, (name, labels)
        return sum(found)


def test_f49_the_series_of_evictions_count_tokens():
    """P=4: leaves 4+4+4, evict_d(10): 12 tokens went, all of them still on host."""
    with CaseCache(16, 16) as c:
        exported = Exported(c)
        for prompt in prompts(3, 4):
            c.put(prompt)
        assert c.drain(LONG)
        assert c.evict_device(10) == 12
        assert exported("evicted_tokens_total", tier="device") == 12
        assert exported("evicted_page_age_seconds_count", tier="device") == 3
        assert exported("evicted_tokens_total", tier="host") == 0
        assert exported("dropped_tokens_total") == 0
        assert c.evict_host(5) == 8
        assert exported("evicted_tokens_total", tier="host") == 8
        assert exported("evicted_page_age_seconds_count", tier="host") == 2
        assert exported("dropped_tokens_total", reason="evicted") == 8
        assert exported("dropped_tokens_total") == 8


def test_f49_the_series_of_a_declined_load_show_no_hit_and_those_of_an_accepted_one_do():
    """Prompt 40 with 8 on the device and 24 on host."""
    prompt = list(range(40))
    with CaseCache(64, 64) as c:
        exported = Exported(c)

        def now() -> dict[str, float]:
            sources = {s: exported("tokens_total", source=s) for s in ("device", "host")}
            names = ("requested_tokens", "found_host_tokens", "missed_tokens", "loaded_tokens")
            totals = {name: exported(f"{name}_total") for name in (*names, "declined_loads")}
            return sources | totals

        def since(before: dict[str, float]) -> dict[str, float]:
            return {name: value - before[name] for name, value in now().items()}

        c.put_on_host(prompt[:32])
        load = c.start_load(prompt[:8])
        assert load.wait(LONG) and c.poll() == 1
        c.release(load)
        taken = c.allocate(9)  # 20 free, less than 24; the 8 belong to the match
        before = now()
        assert c.load_back(c.match_prefix(prompt)) is None
        looked = {"requested_tokens": 40, "device": 8, "found_host_tokens": 24, "missed_tokens": 8}
        assert since(before) == looked | {"host": 0, "loaded_tokens": 0, "declined_loads": 1}
        c.free(taken)
        before = now()
        load = c.start_load(prompt)
        assert load.wait(LONG) and c.poll() == 1
        c.release(load)
        assert since(before) == looked | {"host": 24, "loaded_tokens": 24, "declined_loads": 0}
        assert exported("loaded_bytes_total") == (8 + 24) / 4 * FORMAT.page_bytes


def test_f49_the_series_of_a_look_without_count_show_nothing():
    with CaseCache(16, 16) as c:
        exported = Exported(c)
        c.put(range(8))
        c.hit(range(8), count=False)
        assert exported("requested_tokens_total") == exported("tokens_total", source="device") == 0
        c.hit(range(8))
        assert exported("requested_tokens_total") == exported("tokens_total", source="device") == 8
