"""``Finding``: what one line of the doctor says."""

from __future__ import annotations

from dataclasses import dataclass

OK, WARN, FAIL = "ok", "warn", "fail"
VERDICTS = (OK, WARN, FAIL)


@dataclass(frozen=True)
class Finding:
    """found: what is there. meaning: for whom it matters and how. fix: the one thing to do.

    A warning or a failure has a fix, and nothing else has one.
    """

    verdict: str
    found: str
    meaning: str
    fix: str | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict={self.verdict!r} is unknown; known: {', '.join(VERDICTS)}")
        if (self.verdict == OK) != (self.fix is None):
            raise ValueError(f"{self.verdict} with fix={self.fix!r}: ok has none, others have one")


def ok(found: str, meaning: str) -> Finding:
    """All is well."""
    return Finding(OK, found, meaning)


def warn(found: str, meaning: str, fix: str) -> Finding:
    """It works, less well than it could."""
    return Finding(WARN, found, meaning, fix)


def fail(found: str, meaning: str, fix: str) -> Finding:
    """It does not work."""
    return Finding(FAIL, found, meaning, fix)
