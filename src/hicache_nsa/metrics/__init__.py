"""Metrics for Prometheus: the table of all of them, and the collector (docs/metrics.md)."""

from hicache_nsa.metrics.collector import Collector
from hicache_nsa.metrics.table import METRICS, PREFIX, Metric

__all__ = ["METRICS", "PREFIX", "Collector", "Metric"]
