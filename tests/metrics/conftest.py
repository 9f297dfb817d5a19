"""The tests here drive caches as tests/model and tests/cache do."""

import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.append(str(TESTS / "model"))
sys.path.append(str(TESTS / "cache"))
