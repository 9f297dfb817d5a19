"""The engine that fills pages with bytes made from their prefix is that of tests/cache."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "cache"))
