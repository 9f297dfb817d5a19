"""What went wrong in a demo, in sentences; none means that it showed what it is there to show."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hicache_nsa.demo.results import DemoResult


def failures(result: DemoResult) -> list[str]:
    """One sentence for each claim of the demo that did not hold.

    That a demo was interrupted is no failure of the runs that it finished.
    """
    found = [_bytes_differ(result)] if result.mismatches else []
    if not result.interrupted:
        found += _missing(result)
    if not result.outputs_identical:
        found.append("OUTPUTS DIFFER from the cold run's.")
    return found


def _bytes_differ(result: DemoResult) -> str:
    first = result.mismatches[0]
    return (
        f"BYTES DIFFER: {len(result.mismatches):,} of {result.digests_compared:,} digests of "
        f"pages that came back; first: buffer {first.buffer}, layer {first.layer}, "
        f"page at token {first.first_token}."
    )


def nothing_came_back(result: DemoResult) -> bool:
    """The run after the flush had no page from host memory although it should have.

    A host tier that does nothing gives right outputs too: all is just computed again. Host copies
    in pools that are too small may give way to others before their prompt comes again, which is no
    failure; that none at all was kept is one.
    """
    if result.interrupted or result.runs[-1].host_hit_tokens > 0:
        return False
    return result.pools_hold_all or result.kept_host_tokens == 0


def _missing(result: DemoResult) -> list[str]:
    if nothing_came_back(result):
        return [
            f"NOTHING CAME BACK from host memory after the flush, although the prompts have "
            f"{result.reusable_pages:,} whole pages to save (host copies kept by the flush: "
            f"{result.kept_host_tokens:,} tokens)."
        ]
    _, device, after_flush = result.runs
    if result.pools_hold_all and after_flush.computed_tokens > device.computed_tokens:
        return [
            f"ONLY A PART CAME BACK after the flush: {after_flush.computed_tokens:,} tokens were "
            f"computed, {device.computed_tokens:,} on the warm device, although the host pool has "
            f"room for every page."
        ]
    return []
