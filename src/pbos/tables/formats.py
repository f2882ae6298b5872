"""The formats that can be written; imports neither NumPy nor Numba."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pbos.errors import InputError, MissingExtraError
from pbos.files.atomic import is_standing
from pbos.files.paths import ARROW, COMPRESSIONS, PARQUET, PathLike, is_remote, local, plain_suffix, suffix_of
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
OTHER_SUFFIXES = {  # what `pbos embed` writes, too, and WordVectors does not read
    ".npy": "npy",
    ".jsonl": "jsonl",
    ".json": "jsonl",
    **dict.fromkeys((*PARQUET, *ARROW), "table"),
}
NOT_COMPRESSED = ("npz", "folder", "npy", "table")

# What words may not contain. Readers of lines strip some characters, NumPy strips NUL, UTF-8 has no surrogates.
LINES = r"\A[ \t\ufeff]|[ \t\ufeff]\Z|[\r\n\ud800-\udfff]"
NOT_ALLOWED = {
    "npz": r"\0\Z|[\ud800-\udfff]",
    "word2vec-binary": rf"{LINES}| ",
    "gensim": r"[\ud800-\udfff]",
    "safetensors": r"[\n\ud800-\udfff]",
    "jsonl": r"[\ud800-\udfff]",
    "npy": r"(?!)",  # it has no words
}


def choose_format(path: PathLike, format: str | None = None, others: Mapping[str, str] | None = None) -> str:
    """Return the given format, or the one that the file name implies.

    Args:
        path: The file. What is there and no file, such as a pipe, gets text without a header if it has no known suffix.
        format: One of `FORMATS`, or None.
        others: More suffixes and their formats. A name without a suffix is then an error, and not a folder.
    """
    if format is not None:
        check_choice("format", format, FORMATS)
    suffixes, target = {**SUFFIXES, **(others or {})}, Path(path)  # also of a URL, for its suffix
    compressed = suffix_of(path) in COMPRESSIONS
    if format is None:
        suffix = plain_suffix(path)
        is_pipe = not is_remote(path) and not target.is_dir() and is_standing(local(path))
        is_folder = others is None and (target.is_dir() or not (suffix or is_pipe))
        format = "folder" if is_folder else suffixes.get(suffix) or ("glove" if is_pipe else None)
    if format is None:
        found = f"unknown suffix {suffix}" if suffix else "the suffix chooses the format, and there is none"
        more = "none (a folder), or choose a format (--format)" if others is None else "or a FOLDER/ for Parquet files"
        raise InputError(f"{path}: {found}; use {', '.join(suffixes)}, {more}")
    if compressed and format in NOT_COMPRESSED and not target.is_dir():
        raise InputError(f"{path}: {format} cannot be written compressed; leave out {target.suffix}")
    if format == "gensim" and not find_spec("gensim"):
        raise MissingExtraError("writing gensim's .kv files", "gensim")
    return format


def check_words(words: list[str], format: str) -> None:
    """Raise InputError if a word would not be read back unchanged."""
    for row in bad_words(words, format)[:1]:
        raise InputError(f"the word {words[row]!a} cannot be written as {format}; change it, or use another format")


def bad_words(words: list[str], format: str) -> list[int]:
    """Return the rows of the words that would not be read back unchanged."""
    not_allowed = re.compile(NOT_ALLOWED.get(format, LINES))
    return [row for row, word in enumerate(words) if not_allowed.search(word)]
