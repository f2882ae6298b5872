"""Where text comes from: files, columns of tables, sentences, tokens; all of it as blocks of lines."""

from __future__ import annotations

import glob
import itertools
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pbos.corpus.words import BETWEEN_TOKENS
from pbos.errors import InputError
from pbos.files import BOM, compression, exists, is_remote, is_table, local, open_bytes, open_file, url_of
from pbos.text import is_missing

BLOCK = 16 << 20  # bytes; a fixed size, because thinning out depends on it
CHUNK = 1 << 20


class Source(NamedTuple):
    """A text to read once."""

    chunks: Iterator[bytes]
    size: int | None = None  # in bytes, if known
    tokens: bool = False  # whether it consists of given tokens, see `BETWEEN_TOKENS`

    def blocks(self) -> Iterator[bytes]:
        """Yield blocks of lines, about `BLOCK` bytes each."""
        rest, marks = bytearray(), (b"\n", BETWEEN_TOKENS.encode() if self.tokens else b" ")
        for chunk in self.chunks:
            rest += chunk
            while len(rest) > BLOCK:
                end = next((at + 1 for mark in marks if (at := rest.rfind(mark, 0, BLOCK)) >= 0), BLOCK)
                while rest[end] & 0xC0 == 0x80:  # inside of a character
                    end -= 1
                yield bytes(rest[:end])
                del rest[:end]
        if rest:
            yield bytes(rest)


def source_of(text: Any, column: str | None = None) -> Source:
    """Return text in any form as a source: see `pbos.learn`."""
    if isinstance(text, (str, os.PathLike)):
        return source_of_files([text], column)
    if isinstance(text, (bytes, Mapping)) or hasattr(text, "columns") or getattr(text, "ndim", 1) != 1:
        raise InputError(f"text has to be files, sentences or lists of tokens, got {type(text).__name__}")
    if hasattr(text, "to_pylist"):  # columns of Arrow, chunk by chunk
        chunks = getattr(text, "chunks", [text])
        text = itertools.chain.from_iterable(chunk.to_pylist() for chunk in chunks)
    elif hasattr(text, "tolist"):  # columns of pandas and NumPy
        text = text.tolist()
    if not isinstance(text, Iterable):
        raise InputError(f"text has to be files, sentences or lists of tokens, got {type(text).__name__}")
    items: Iterator[Any] = (item for item in text if not is_missing(item))
    first = next(items, None)
    if first is None:
        raise InputError("there is no text; pass at least one sentence")
    items = itertools.chain([first], items)
    if isinstance(first, os.PathLike):
        return source_of_files(list(items), column)
    if isinstance(first, str):
        if os.path.isfile(first):  # noqa: PTH113  # a long sentence is no error
            raise InputError(f"{first} is a file, not a sentence; pass files as a list of Path")
        return Source(map(line_of, checked(items, str)))
    return Source((line_of_tokens(item) for item in checked(items, Iterable)), tokens=True)


def checked(items: Iterable[Any], kind: Any) -> Iterator[Any]:
    """Yield items, or raise InputError if one is not of a kind."""
    for number, item in enumerate(items):
        if not isinstance(item, kind) or (kind is Iterable and isinstance(item, (str, bytes))):
            wanted = "a str" if kind is str else "a list of tokens, as the first one is"
            raise InputError(f"item {number} is {type(item).__name__}, not {wanted}; drop or convert it")
        yield item


def line_of(sentence: str) -> bytes:
    """Return a sentence as a line."""
    return sentence.replace("\n", " ").replace("\r", " ").encode("utf-8", "replace") + b"\n"


def line_of_tokens(tokens: Iterable[str]) -> bytes:
    """Return a sentence of tokens as a line."""
    return line_of(BETWEEN_TOKENS.join(token.replace(BETWEEN_TOKENS, " ") for token in checked(tokens, str)))


def source_of_files(paths: Iterable[str | os.PathLike[str]], column: str | None = None) -> Source:
    """Return the text of files, or of those that patterns match; `-` is stdin."""
    found = files_of(paths)
    if column is not None and not all(map(is_table, found)):
        raise InputError("a column is for tables; all files have to end in .parquet, .arrow or .feather")
    plain = not any(map(is_remote, found)) and all(
        Path(path).is_file() and not is_table(path) and not is_compressed(path) for path in found
    )
    return Source(chunks_of_files(found, column), sum(Path(path).stat().st_size for path in found) if plain else None)


def files_of(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return files, each once; patterns such as `*.txt.gz` are resolved in sorted order."""
    found: list[str] = []
    for path in paths:
        name = url_of(path) if is_remote(path) else str(local(path))
        matches = [name] if name == "-" or exists(name) else files_like(name)
        if not matches:
            raise InputError(f"{name}: there is no such file; pass files, or patterns such as 'texts/*.txt.gz'")
        found += matches
    return list(dict.fromkeys(found))


def files_like(pattern: str) -> list[str]:
    """Return the files that a pattern matches, sorted; it may be absolute or a URL, unlike those of Path.glob."""
    if is_remote(pattern):
        from pbos import remote

        return remote.files_like(pattern)
    return sorted(name for name in glob.glob(pattern, recursive=True) if not Path(name).is_dir())  # noqa: PTH207


def is_compressed(path: str) -> bool:
    """Return whether a file is compressed."""
    with open_file(path) as stream:
        return compression(stream.read(6)) is not None


def chunks_of_files(paths: list[str], column: str | None) -> Iterator[bytes]:
    """Yield the content of files, with an end of line after each."""
    for path in paths:
        if is_table(path):
            from pbos.adapters.arrow import words_of_table  # here, because it is an extra

            yield from map(line_of, words_of_table(path, column, missing="zeros"))
        elif path == "-":
            yield from iter(lambda: sys.stdin.buffer.read(CHUNK), b"")
        else:
            with open_bytes(path) as stream:
                yield stream.read(CHUNK).removeprefix(BOM)
                yield from iter(lambda: stream.read(CHUNK), b"")  # used up before the next file
        yield b"\n"
