"""The formats of word vectors: how each is recognized, read and written. This imports neither NumPy nor Numba."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from pbos.errors import FormatError, InputError, MissingExtraError
from pbos.files.atomic import is_special_file
from pbos.files.paths import ARROW, COMPRESSIONS, PARQUET, PathLike, is_remote, plain_suffix, suffix_of, to_local_path
from pbos.settings import check_choice

# What words may not contain. Readers of lines strip some characters, NumPy strips NUL, UTF-8 has no surrogates.
SURROGATES = r"[\ud800-\udfff]"
LINES = rf"\A[ \t\ufeff]|[ \t\ufeff]\Z|[\r\n]|{SURROGATES}"


class Format(NamedTuple):
    """A format. Those without functions of their own are rows of text or bytes: see text.py and writing.py."""

    suffixes: tuple[str, ...] = ()  # of the files that are written in this format
    forbidden: str = LINES  # finds what words may not contain, because it would not be read back
    magic: bytes = b""  # matches the first bytes of a file
    read: str = ""  # the function in this room that gets a path and the open file, and returns words and vectors
    write: str = ""  # the function in this room that gets an open file, words and vectors
    compresses: bool = True  # whether a second suffix may compress the file


FORMATS = {  # if more than one matches a file, it is the last: safetensors may start with any byte
    "word2vec": Format((".vec", ".txt")),
    "word2vec-binary": Format((".bin",), rf"{LINES}| "),
    "glove": Format((".glove",)),
    "npz": Format(
        (".npz",),
        rf"\0\Z|{SURROGATES}",
        magic=rb"PK\x03\x04",
        read="containers.read_npz",
        write="containers.write_npz",
        compresses=False,
    ),
    "gensim": Format((".kv",), SURROGATES, rb"\x80", read="pickles.read_gensim", write="pickles.write_gensim"),
    "safetensors": Format(
        (".safetensors",),
        rf"\n|{SURROGATES}",
        magic=rb"(?s:....)\0\0\0\0\{",  # the size of the header, in eight bytes, and JSON
        read="containers.read_safetensors",
        write="containers.write_safetensors",
    ),
    "folder": Format(compresses=False),
}
OUTPUT_FORMATS = {  # what `pbos embed` writes: vectors may follow each other without end, also without words
    **{name: format for name, format in FORMATS.items() if name != "folder"},
    "npy": Format((".npy",), forbidden=r"(?!)", compresses=False),
    "jsonl": Format((".jsonl", ".json"), SURROGATES),
    "table": Format((*PARQUET, *ARROW), compresses=False),
    "text": Format(),
}
UNREADABLE = {  # by the first bytes
    (793712314).to_bytes(4, "little"): "this is a fastText model (.bin); use the .vec file written next to it",
    b"\x89HDF\r\n\x1a\n": "this is an HDF5 file; save its words and vectors as .npz or word2vec",
    b"\x93NUMPY": "this is a matrix without words; put it in a folder as vectors.npy, next to words.txt",
}


def find_reader(path: PathLike, head: bytes) -> Any:
    """Return the function that reads a file, by its first bytes; None if it has rows."""
    for magic, message in UNREADABLE.items():
        if head.startswith(magic):
            raise FormatError(f"{path}: {message}")
    names = [format.read for format in FORMATS.values() if format.magic and re.match(format.magic, head)]
    return resolve_name(f"pbos.tables.{names[-1]}") if names else None


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
