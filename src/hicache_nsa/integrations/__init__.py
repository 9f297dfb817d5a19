"""Adapters to engines. Each imports its engine; ``hicache_nsa`` itself imports none of them."""
