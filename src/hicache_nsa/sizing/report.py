"""What ``hicache size`` says: of one model, or a row for each known one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from hicache_nsa.formats import PoolFormat
from hicache_nsa.sizing.bandwidth import Bandwidth, NoBandwidth
from hicache_nsa.sizing.loads import FORMULA, BreakEven, FixedCost, LoadTime
from hicache_nsa.sizing.tiers import TierSize


@dataclass(frozen=True)
class SizeReport:
    """Of one model. model: its name or the config's path. source: where its config is from.

    break_even: None where the bandwidth or the prefill rate is unknown.
    """

    model: str
    source: str
    format: PoolFormat
    tiers: tuple[TierSize, ...]
    bandwidth: Bandwidth | NoBandwidth
    loads: tuple[LoadTime, ...]
    break_even: BreakEven | None
    fixed: FixedCost

    def to_json(self) -> dict[str, object]:
        """The report as the command's JSON shows it, without what every command reports."""
        rate = self.bandwidth
        return {
            "model": self.model,
            "source": self.source,
            **_of_format(self.format),
            "buffers": [
                {
                    "name": buffer.name,
                    "layers": len(buffer.layers),
                    "token_bytes": len(buffer.layers) * buffer.page_bytes / self.format.page_size,
                    "page_bytes": len(buffer.layers) * buffer.page_bytes,
                }
                for buffer in self.format.buffers
            ],
            "tiers": [_of_tier(tier) for tier in self.tiers],
            "bandwidth": asdict(rate) if isinstance(rate, Bandwidth) else None,
            "bandwidth_unknown": rate.reason if isinstance(rate, NoBandwidth) else None,
            "fixed_cost": asdict(self.fixed),
            "loads": [
                {
                    "tokens": load.tokens,
                    "pages": load.pages,
                    "bytes": load.nbytes,
                    "seconds": load.seconds,
                    "recompute_seconds": load.recompute_seconds,
                }
                for load in self.loads
            ],
            "break_even": None
            if self.break_even is None
            else {**asdict(self.break_even), "formula": FORMULA, "estimate": True},
        }


@dataclass(frozen=True)
class ModelRow:
    """One known model. tiers: as many as sizes were given."""

    model: str
    source: str
    format: PoolFormat
    tiers: tuple[TierSize, ...]

    def to_json(self) -> dict[str, object]:
        """The row as the command's JSON shows it."""
        return {
            "model": self.model,
            "source": self.source,
            **_of_format(self.format),
            "tiers": [_of_tier(tier) for tier in self.tiers],
        }


def _of_format(format: PoolFormat) -> dict[str, object]:
    return {
        "format": format.name,
        "layers": format.num_layers,
        "page_size": format.page_size,
        "page_bytes": format.page_bytes,
        "token_bytes": format.token_bytes,
    }


def _of_tier(tier: TierSize) -> dict[str, object]:
    return {
        "tier": tier.tier,
        "bytes": tier.nbytes,
        "pages": tier.pages,
        "tokens": tier.tokens,
        "unused_bytes": tier.unused_bytes,
    }
