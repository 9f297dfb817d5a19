"""Refuses a transformers that is missing or too old, by name, when the adapter is imported."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version

from hicache_nsa.extras import install_extra

SUPPORTED = "transformers>=5.17,<6"
_OLDEST, _BELOW = (5, 17), (6, 0)


def require_supported(found: str) -> None:
    """``ImportError`` unless ``found`` is a version of transformers that is supported."""
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or not _OLDEST <= (int(numbers[1]), int(numbers[2])) < _BELOW:
        raise ImportError(
            f"hicache_nsa.integrations.transformers supports {SUPPORTED}, transformers {found} is "
            f"installed; {install_extra('transformers')}"
        )


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError as error:
        raise ImportError(
            f"hicache_nsa.integrations.transformers needs torch and {SUPPORTED}; {package} isn't "
            f"installed; {install_extra('transformers')}"
        ) from error


_version_of("torch")
require_supported(_version_of("transformers"))
