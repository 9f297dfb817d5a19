"""The transfer engine of a cache."""

from __future__ import annotations

from typing import Any

from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.transfer import TransferEngine


def make_engine(
    engine_type: type[TransferEngine],
    device_pool: DevicePool,
    host: HostPool,
    io_backend: str,
    options: dict[str, Any],
) -> TransferEngine:
    """An engine of that type between the pools of a cache.

    If there can be none, the host pool is closed: nothing gets ready for a cache that isn't there.
    """
    try:
        return engine_type(device_pool, host, io_backend, **options)
    except BaseException:
        host.close()
        raise
