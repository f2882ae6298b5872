"""The formats that can be written; imports neither NumPy nor Numba."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

from pbos.errors import InputError, MissingExtraError
from pbos.files import PathLike
from pbos.settings import check_choice

FORMATS = ("word2vec", "word2vec-binary", "glove", "npz", "gensim", "safetensors", "folder")
SUFFIXES = {
    ".vec": "word2vec",
    ".txt": "word2vec",
    ".bin": "word2vec-binary",
    ".glove": "glove",
    ".npz": "npz",
    ".kv": "gensim",
    ".safetensors": "safetensors",
}
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")

# What words may not contain. Readers of lines strip some characters, NumPy strips NUL, UTF-8 has no surrogates.
LINES = r"\A[ \t\r\ufeff]|[ \t\r\ufeff]\Z|[\n\ud800-\udfff]"
NOT_ALLOWED = {
    "npz": r"\0\Z|[\ud800-\udfff]",
    "word2vec-binary": rf"{LINES}| ",
    "gensim": r"[\ud800-\udfff]",
    "safetensors": r"[\n\ud800-\udfff]",
}


def choose_format(path: PathLike, format: str | None) -> str:
    """Return the given format, or the one that the file name implies."""
    if format is not None:
        check_choice("format", format, FORMATS)
    target = Path(path)  # also of a URL, for its suffix
    compressed = target.suffix in COMPRESSIONS
    if format is None:
        suffix = (target.with_suffix("") if compressed else target).suffix
        format = "folder" if target.is_dir() or not suffix else SUFFIXES.get(suffix)
    if format is None:
        raise InputError(
            f"{path}: unknown suffix {suffix}; use {', '.join(SUFFIXES)}, none (a folder), or pass format="
        )
    if compressed and format in ("npz", "folder") and not target.is_dir():
        raise InputError(f"{path}: {format} cannot be written compressed; leave out {target.suffix}")
    if format == "gensim" and not find_spec("gensim"):
        raise MissingExtraError("writing gensim's .kv files", "gensim")
    return format


def check_words(words: list[str], format: str) -> None:
    """Raise InputError if a word would not be read back unchanged."""
    not_allowed = re.compile(NOT_ALLOWED.get(format, LINES))
    for word in words:
        if not_allowed.search(word):
            raise InputError(f"the word {word!a} cannot be written as {format}; change it, or use another format")
