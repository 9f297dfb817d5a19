"""What one replay of a trace varies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from hicache_nsa.sizes import format_size


@dataclass(frozen=True, slots=True)
class Case:
    """Policies as ``HiCache`` names them; sizes in bytes, 0 for no such tier."""

    policy: str
    write_policy: str
    device_bytes: int
    host_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.policy} {self.write_policy} "
            f"{format_size(self.device_bytes)} + {format_size(self.host_bytes)}"
        )


def cases_of(
    policies: Iterable[str],
    write_policies: Iterable[str],
    device_bytes: Iterable[int],
    host_bytes: Iterable[int],
) -> list[Case]:
    """All combinations, host sizes varying fastest."""
    combinations = product(device_bytes, policies, write_policies, host_bytes)
    return [Case(policy, write, device, host) for device, policy, write, host in combinations]
