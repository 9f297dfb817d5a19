"""Where things are in the repository."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "hicache_nsa"
FOLDERS = ("src", "cpp", "tests", "bench", "docs", "examples", ".ci")
TEXT = {".py", ".pyi", ".cpp", ".hpp", ".h", ".cu", ".cuh", ".md", ".txt", ".cmake", ".toml"}
TEXT |= {".json", ".jsonl", ".svg", ".yaml", ".yml", ".typed", ""}


def text_files() -> list[Path]:
    """Every text file of ours: the known folders and the files at the root."""
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    found = [*inside, *ROOT.iterdir()]
    return sorted(
        path
        for path in found
        if path.is_file() and path.suffix in TEXT and not set(path.parts) & {"__pycache__", ".git"}
    )
