"""The formats of word vectors that can be written. This imports neither NumPy nor Numba."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from pbos.errors import InputError, MissingExtraError
from pbos.files.atomic import is_special_file
from pbos.files.paths import ARROW, COMPRESSIONS, PARQUET, PathLike, is_remote, plain_suffix, suffix_of, to_local_path
from pbos.settings import check_choice

# What words may not contain. Readers of lines strip some characters, NumPy strips NUL, UTF-8 has no surrogates.
SURROGATES = r"[\ud800-\udfff]"
LINES = rf"\A[ \t\ufeff]|[ \t\ufeff]\Z|[\r\n]|{SURROGATES}"


class Format(NamedTuple):
    """How a format is chosen, and what it can hold."""

    suffixes: tuple[str, ...] = ()  # of the files that are written in this format
    forbidden: str = LINES  # finds what words may not contain, because it would not be read back
    compresses: bool = True  # whether a second suffix may compress the file


FORMATS = {
    "word2vec": Format((".vec", ".txt")),
    "word2vec-binary": Format((".bin",), rf"{LINES}| "),
    "glove": Format((".glove",)),
    "npz": Format((".npz",), rf"\0\Z|{SURROGATES}", compresses=False),
    "gensim": Format((".kv",), SURROGATES),
    "safetensors": Format((".safetensors",), rf"\n|{SURROGATES}"),
    "folder": Format(compresses=False),
}
OUTPUT_FORMATS = {  # what `pbos embed` writes: vectors may follow each other without end, also without words
    **{name: format for name, format in FORMATS.items() if name != "folder"},
    "npy": Format((".npy",), forbidden=r"(?!)", compresses=False),
    "jsonl": Format((".jsonl", ".json"), SURROGATES),
    "table": Format((*PARQUET, *ARROW), compresses=False),
    "text": Format(),
}


def choose_format(path: PathLike, format: str | None = None, formats: Mapping[str, Format] = FORMATS) -> str:
    """Return the given format, or the one that the file name implies, if it can be written.

    A name without a suffix is that of a folder, if folders are among the formats; a pipe gets text without a header.
    """
    if format is not None:
        check_choice("format", format, formats)
    suffix, has_folders, is_there = plain_suffix(path), "folder" in formats, Path(path).is_dir()
    if format is None:
        by_suffix = {suffix: name for name, details in formats.items() for suffix in details.suffixes}
        is_pipe = not is_remote(path) and not is_there and is_special_file(to_local_path(path))
        is_folder = has_folders and (is_there or not (suffix or is_pipe))
        format = "folder" if is_folder else by_suffix.get(suffix) or ("glove" if is_pipe else None)
    if format is None:
        found = f"unknown suffix {suffix}" if suffix else "the suffix chooses the format, and there is none"
        more = "none (a folder), or choose a format (--format)" if has_folders else "or a FOLDER/ for Parquet files"
        raise InputError(f"{path}: {found}; use {', '.join(by_suffix)}, {more}")
    if suffix_of(path) in COMPRESSIONS and not formats[format].compresses and not is_there:
        raise InputError(f"{path}: {format} cannot be written compressed; leave out {suffix_of(path)}")
    if format == "gensim" and not find_spec("gensim"):
        raise MissingExtraError("writing gensim's .kv files", "gensim")
    return format


def check_words(words: list[str], format: str) -> None:
    """Raise InputError if a word would not be read back unchanged."""
    for row in bad_words(words, format)[:1]:
        raise InputError(f"the word {words[row]!a} cannot be written as {format}; change it, or use another format")


def bad_words(words: list[str], format: str) -> list[int]:
    """Return the rows of the words that would not be read back unchanged."""
    forbidden = re.compile((FORMATS | OUTPUT_FORMATS)[format].forbidden)
    return [row for row, word in enumerate(words) if forbidden.search(word)]
