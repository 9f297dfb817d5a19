"""KV events for the routers of SGLang and vLLM: batches in their formats, published over ZeroMQ.

Needs the extra ``events`` (msgspec, pyzmq); what a cache writes down needs neither.
"""

from hicache_nsa.cache import Cleared, KvEvent, KvEventLog, Removed, Stored
from hicache_nsa.kv_events.installed import require_installed

require_installed()

from hicache_nsa.kv_events.publisher import KvEventPublisher  # noqa: E402
from hicache_nsa.kv_events.wire import FORMATS, WireFormat, encode_batch  # noqa: E402

__all__ = [
    "FORMATS",
    "Cleared",
    "KvEvent",
    "KvEventLog",
    "KvEventPublisher",
    "Removed",
    "Stored",
    "WireFormat",
    "encode_batch",
]
