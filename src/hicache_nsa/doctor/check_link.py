"""Checks of the link between a GPU and host memory. Pure; None: there is nothing to say."""

from __future__ import annotations

from hicache_nsa.doctor.check_software import cuda_version
from hicache_nsa.doctor.chosen_gpu import gpu_link
from hicache_nsa.doctor.facts import INTERRUPTED, Curve, Facts, Link
from hicache_nsa.doctor.finding import Finding, fail, ok, warn
from hicache_nsa.formats.models import model_format
from hicache_nsa.link_curve import ago
from hicache_nsa.sizes import format_size

LANE_RATES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
GOOD_SHARE = 0.6  # of what the link can do by its lanes; contiguous copies reach 0.8 to 0.9
MOST_DRIFT = 0.25  # of a kept curve against what is measured now
BATCH_RUNTIME = 13000
EXAMPLE_TOKENS = 8192


def check_pcie(facts: Facts) -> Finding | None:
    """The link's generation and lanes, read right after copies: an idle GPU lowers them."""
    if not facts.on_gpu or facts.cuda.problem is not None:
        return None
    link = gpu_link(facts)
    if link.most_generation is None or link.most_lanes is None:
        return ok("unknown", "The system does not show the link; what was measured counts.")
    most = f"PCIe {link.most_generation} x{link.most_lanes}"
    rate = f"{_most_rate(link) / 1e9:.0f} GB/s"
    if link.generation is None or link.lanes is None:
        return ok(f"at most {most}", f"At most {rate} a direction.")
    found = f"PCIe {link.generation} x{link.lanes}, at most {most}"
    if link.lanes < link.most_lanes:
        return warn(
            found,
            f"{link.lanes} of {link.most_lanes} lanes: loads take "
            f"{link.most_lanes / link.lanes:.3g} times as long.",
            "move the card to a slot with all its lanes, or reseat it",
        )
    if link.generation < link.most_generation and not _is_fast(facts, link):
        return warn(
            found,
            "Right after copies the link is not at its full speed.",
            "set the slot's PCIe speed to auto in the BIOS",
        )
    return ok(found, f"At most {rate} a direction.")


def check_bandwidth(facts: Facts) -> Finding | None:
    """What two seconds of copies reached. None: another line says that there is no GPU."""
    if facts.on_gpu and facts.cuda.problem is not None:
        return None
    measured = facts.measured
    if measured.problem == INTERRUPTED:
        return warn("no figures", "It was ended while it measured.", "run hicache doctor again")
    if measured.problem is not None or measured.h2d is None or measured.d2h is None:
        return fail(
            f"no figures: {measured.problem}",
            "Copies between the device and host memory do not work here.",
            f"run hicache bench transfer --device {facts.device}: it shows which copies fail",
        )
    found = f"h2d {measured.h2d / 1e9:.1f} GB/s, d2h {measured.d2h / 1e9:.1f} GB/s"
    format = model_format("deepseek-v3.2")
    seconds = EXAMPLE_TOKENS * format.token_bytes / measured.h2d
    meaning = (
        f"Measured {measured.how}. {EXAMPLE_TOKENS:,} tokens of DeepSeek-V3.2 "
        f"({format_size(EXAMPLE_TOKENS * format.token_bytes)}) load in {1e3 * seconds:.1f} ms."
    )
    if not facts.on_gpu:
        return ok(found, meaning)
    link = gpu_link(facts)
    if link.most_generation is None or link.most_lanes is None or _is_fast(facts, link):
        return ok(found, meaning)
    share = min(measured.h2d, measured.d2h) / _most_rate(link)
    return warn(
        found,
        f"{share:.0%} of what PCIe {link.most_generation} x{link.most_lanes} can do. {meaning}",
        "end what else copies to or from this GPU, then run hicache doctor again",
    )


def check_batch_copy(facts: Facts) -> Finding | None:
    """Whether single pages go in batches: CUDA 13's call."""
    if not facts.on_gpu or facts.cuda.problem is not None:
        return None
    runtime, driver = facts.cuda.runtime, facts.cuda.driver
    found = f"built with CUDA {cuda_version(runtime)}, driver for CUDA {cuda_version(driver)}"
    slow = "Pieces are copied one by one, at 3 to 4 us each, where copies go by copy engine."
    if runtime < BATCH_RUNTIME:
        return warn(found, slow, "build hicache-nsa with the toolkit of CUDA 13 or newer")
    if driver < BATCH_RUNTIME:
        return warn(found, slow, "update the driver to one for CUDA 13 or newer")
    return ok(found, "Pieces are copied in batches (cudaMemcpyBatchAsync).")


def check_link_curve(facts: Facts) -> Finding | None:
    """The curve by which ways of copies are chosen: kept or not, and still true."""
    if not facts.on_gpu or facts.cuda.problem is not None or facts.curve is None:
        return None
    curve = facts.curve
    if curve.h2d is None or curve.d2h is None or curve.age_seconds is None:
        if curve.writable:
            return ok(
                f"none is kept yet: {curve.file}",
                "The first cache on this GPU measures it, in less than a second.",
            )
        return warn(
            f"none is kept: {curve.file} cannot be written",
            "Every process measures the link anew, in less than a second.",
            "name a folder that can be written in XDG_CACHE_HOME",
        )
    found = f"{curve.file}, {ago(curve.age_seconds)} old: {_summary(curve)}"
    for now, kept, name in (
        (facts.measured.h2d, curve.h2d, "h2d"),
        (facts.measured.d2h, curve.d2h, "d2h"),
    ):
        if now is not None and abs(now / kept - 1) > MOST_DRIFT:
            return warn(
                found,
                f"{name} runs at {now / 1e9:.1f} GB/s now: ways of copies are chosen by figures "
                "that no longer hold.",
                "hicache bench link --again, with nothing else on the GPU",
            )
    return ok(found, "Ways of copies are chosen by it (hicache bench link shows all of it).")


def _summary(curve: Curve) -> str:
    assert curve.h2d is not None and curve.d2h is not None
    return (
        f"h2d {curve.h2d / 1e9:.1f} GB/s, d2h {curve.d2h / 1e9:.1f} GB/s, "
        f"{curve.piece_bytes:,} scattered bytes in {1e6 * curve.piece_seconds:.2f} us"
    )


def _is_fast(facts: Facts, link: Link) -> bool:
    """Both directions reach a good share of what the link can do."""
    rates = facts.measured.h2d, facts.measured.d2h
    return all(rate is not None and rate >= GOOD_SHARE * _most_rate(link) for rate in rates)


def _most_rate(link: Link) -> float:
    """Bytes a second of all lanes; 0 for an unknown generation."""
    return LANE_RATES.get(link.most_generation or 0, 0.0) * (link.most_lanes or 0)
