"""The linker for SGLang without SGLang: keys, slots, leases and copies.

Nothing in this package imports the engine, so that all of it can be tested where there is none, on
the CPU and on a GPU. ``hicache_nsa.integrations.sglang`` has what SGLang is given.
"""
