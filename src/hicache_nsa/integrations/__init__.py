"""Adapters for engines. Importing ``hicache_nsa`` imports none of them.

Each adapter is imported by name (``hicache_nsa.integrations.sglang``); without its engine that is
an ImportError which names the extra to install and the versions that are supported.
"""
