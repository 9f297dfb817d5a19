"""``layer_done_counter``: what SGLang's pools ask before a layer reads its pages."""

from __future__ import annotations

from hicache_nsa.integrations.linking.loads import NO_LOAD, Loads


class LayerCounter:
    """The batch whose layers are awaited, set by SGLang's worker before each forward.

    num_layers: of this rank; layers are counted from 0. On CUDA the stream waits that is current at
    the call, not the host.
    """

    def __init__(self, loads: Loads, num_layers: int) -> None:
        self._loads = loads
        self.num_layers = num_layers
        self.consumer_index = NO_LOAD

    def set_consumer(self, index: int) -> None:
        """Wait for the batch ``index`` from now on; -1: for none."""
        self.consumer_index = index

    def wait_until(self, threshold: int) -> None:
        """Wait until layer ``threshold`` has landed; also returns when the copy has failed."""
        if self.consumer_index >= 0:
            self._loads.wait_layer(self.consumer_index, threshold)

    def reset(self) -> None:
        """Wait for nothing."""
        self.consumer_index = NO_LOAD
