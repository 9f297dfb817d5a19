"""Metrics for Prometheus: the table of all of them, and the collector."""
