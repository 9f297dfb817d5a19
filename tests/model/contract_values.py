"""What the model remembers: cached pages and their users, copies in flight, what callers hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from pool_trace import Submitted

Prefix = tuple[int, ...]
D2H, H2D = "d2h", "h2d"


def chain(prefix: Prefix) -> list[Prefix]:
    """Every prefix of ``prefix`` that has a page, the shortest first; itself included."""
    return [prefix[:end] for end in range(2, len(prefix) + 1)]


def require(condition: object, *message: object) -> None:
    """The one way in which the model says that the cache is wrong."""
    if not condition:
        raise AssertionError(" ".join(map(str, message)))


def require_equal(what: str, cache: object, model: object) -> None:
    if cache != model:
        raise AssertionError(f"{what}: the cache has {cache!r}, the model {model!r}")


@dataclass(eq=False)
class Cached:
    """One page of one prefix. device, host: its page ids. locks: users of it or of one below.
    used: seconds, of its last use.
    """

    device: int | None = None
    host: int | None = None
    locks: int = 0
    hits: int = 1
    used: float = 0.0
    saving: Save | None = None
    loading: Load | None = None


@dataclass(eq=False)
class Save:
    """Device to host."""

    prefixes: list[Prefix]
    copy: Submitted


@dataclass(eq=False)
class Load:
    """Host to device. above: loads that bring earlier pages. surplus: what the tree didn't take."""

    prefixes: list[Prefix]
    copy: Submitted
    above: tuple[Load, ...]
    users: int = 0
    acked: bool = False
    failed: bool = False
    inserted_behind: bool = False
    surplus: list[int] = field(default_factory=list)
    waiting: list[Deferred] = field(default_factory=list)

    @property
    def landed(self) -> bool:
        return self.acked and not self.failed

    @property
    def doomed(self) -> bool:
        """Whether what is computed behind it will be dropped."""
        return self.copy.fails or self.failed or any(load.doomed for load in self.above)

    def owns(self, prefix: Prefix, page: int) -> bool:
        return any(
            mine == prefix and its == page
            for mine, its in zip(self.prefixes, self.copy.device_pages, strict=True)
        )


@dataclass(eq=False)
class Deferred:
    """An insert behind loads in flight. own: the pages that it brought, by prefix."""

    prefix: Prefix
    own: dict[Prefix, int]
    loads: set[Load]
    handles: set[Lock] = field(default_factory=set)
    settled: bool = False
    landed: bool = False
    kept: list[int] = field(default_factory=list)

    @property
    def doomed(self) -> bool:
        return not self.landed and (self.settled or any(load.doomed for load in self.loads))

    def owns(self, prefix: Prefix, page: int) -> bool:
        return self.own.get(prefix) == page


@dataclass(eq=False)
class Lock:
    """What a handle protects: every page of ``prefix`` (None: nothing)."""

    prefix: Prefix | None
    epoch: int
    released: bool = False
    loads: list[Load] = field(default_factory=list)
    deferred: list[Deferred] = field(default_factory=list)


@dataclass(eq=False)
class Match:
    """What a match saw: the entries themselves, so that pages which came back are told apart."""

    prefixes: list[Prefix]
    entries: list[Cached]
    device: list[int]
    host_pages: int
    epoch: int


@dataclass(eq=False)
class Loading:
    """What a LoadBack holds: the path down to ``prefix`` and its loads."""

    prefix: Prefix
    pages: list[int]
    loads: list[Load]
    epoch: int
    released: bool = False


@dataclass(frozen=True)
class CallerPage:
    """A page that a caller owns, allocated at that version of the weights."""

    version: int
