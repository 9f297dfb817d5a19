"""A failed copy's second try: no engine, no thread; every piece copied and compared in turn."""

from __future__ import annotations

from typing import Any

import numpy as np

from hicache_nsa.errors import TransferError
from hicache_nsa.pools import DevicePool, HostPool
from hicache_nsa.tokens import PageIds
from hicache_nsa.transfer import H2D


def copy_again(
    device: DevicePool, host: HostPool, direction: str, host_pages: PageIds, device_pages: PageIds
) -> None:
    """Copy the pages one by one, in the caller's thread, and read each one back.

    Tensors of a GPU are copied by torch on the current stream; this returns when it is done.

    Raises:
        TransferError: a page that came out with other bytes.
        Exception: whatever numpy or torch raise.
    """
    for buffer in device.format.buffers:
        for layer, tensor in zip(buffer.layers, device.buffers[buffer.name], strict=True):
            for host_page, device_page in zip(host_pages, device_pages, strict=True):
                there = host.page_view(buffer.name, layer, int(host_page))
                _copy(there, tensor[int(device_page)], to_device=direction == H2D)
                if not np.array_equal(there, _bytes(tensor[int(device_page)])):
                    raise TransferError(
                        f"host page {host_page} and device page {device_page} differ in "
                        f"{buffer.name!r}, layer {layer}, after they were copied"
                    )


def _copy(host: Any, device: Any, to_device: bool) -> None:
    if isinstance(device, np.ndarray):
        pair = (device.view(np.uint8), host)
        np.copyto(*(pair if to_device else pair[::-1]))
        return
    import torch

    on_host = torch.from_numpy(host)
    on_device = device.view(torch.uint8)
    target, source = (on_device, on_host) if to_device else (on_host, on_device)
    target.copy_(source, non_blocking=False)


def _bytes(device: Any) -> Any:
    if isinstance(device, np.ndarray):
        return device.view(np.uint8)
    import torch

    return device.view(torch.uint8).cpu().numpy()
