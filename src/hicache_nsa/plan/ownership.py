"""Whose a device page is."""

from __future__ import annotations


class Owner:
    """The states of a device page, plain ints. Every page is in exactly one of them."""

    FREE = 0
    """In the pool's free list, or reserved."""
    CALLER = 1
    """Allocated and not given back yet."""
    TREE = 2
    """Cached: it is in the ``value`` of one node."""
    PENDING = 3
    """With a load in flight, or with an insert that waits for one."""
