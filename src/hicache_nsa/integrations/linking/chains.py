"""What follows what: the parents of keys, as lookups have shown them.

SGLang offloads node by node and doesn't say what is above a node, but it looks up the whole
uncached tail of a request before: there each key follows the one before it. With the parents the
index evicts the end of a prefix before its beginning, across nodes.
"""

from __future__ import annotations


class Chains:
    """The parents of the keys seen last: of ``most`` at least, of about twice that at most."""

    def __init__(self, most: int) -> None:
        self._most = max(most, 1)
        self._young: dict[str, str] = {}
        self._old: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def note(self, keys: list[str], parent: str | None = None) -> None:
        """``keys`` in chain order; ``parent`` is above the first of them."""
        if parent is not None and keys:
            self._young[keys[0]] = parent
        self._young.update(zip(keys[1:], keys, strict=False))
        if len(self._young) >= self._most:
            self._old, self._young = self._young, {}

    def parent_of(self, key: str) -> str | None:
        """The key above ``key``; None if that was never seen, or too long ago."""
        parent = self._young.get(key)
        return self._old.get(key) if parent is None else parent
