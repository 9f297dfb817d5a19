"""``CheckedCalls``: a ``HiCache`` behind which ``check()`` runs after every call."""

from __future__ import annotations

from typing import Any

import hicache_nsa as hc


class CheckedCalls:
    """Its methods and attributes are those of ``cache``."""

    def __init__(self, cache: hc.HiCache) -> None:
        self.cache = cache

    def __getattr__(self, name: str) -> Any:
        value = getattr(self.cache, name)
        if not callable(value) or isinstance(value, type):
            return value

        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return value(*args, **kwargs)
            finally:
                self.cache.check()

        return call

    def __enter__(self) -> CheckedCalls:
        return self

    def __exit__(self, *exc: object) -> None:
        self.cache.close()
