"""Where text comes from: files, columns of tables, sentences, tokens; all in shards, which workers cut into words."""

from __future__ import annotations

import glob
import itertools
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pbos.errors import FormatError, InputError
from pbos.files import paths
from pbos.files.atomic import write_whole
from pbos.files.remote import store_of
from pbos.jobs.pools import Pool
from pbos.jobs.threads import blocks
from pbos.tables.text import count_numbers, sample_rows
from pbos.words.text import is_missing
from pbos.words.tokens import BETWEEN_TOKENS

Item = TypeVar("Item")
BLOCK = 16 << 20  # bytes of a shard; a fixed size, because subsampling depends on it
NEAR = 1 << 16  # bytes before a cut that are searched for an end of line
CHUNK = 1 << 20
NOT_IN_TOKENS = f"[{BETWEEN_TOKENS}\t]"  # a tab would break files of counts
MANY = 10  # numbers in a line, which no text has after each first word
MOST_PARTS = 10_000  # into which the files are divided to be cut


class Piece(NamedTuple):
    """A range of a plain text file."""

    path: str
    start: int
    stop: int


Shard = list[Piece]
"""Ranges of about `BLOCK` bytes in all: one of a large file, or several small files."""


class Source(NamedTuple):
    """A text."""

    texts: list[str | Iterable[bytes]]  # names of files, and chunks of text that can be read only once
    column: str | None  # of tables
    cut: str  # how to find its words: "words", by its letters; by the "spaces" between them; or the "tokens" given

    def shards(self, folder: Path, pool: Pool) -> list[Shard]:
        """Return the text as shards, the same ones for any pool.

        What is not plain text in a file, and so cannot be read from the middle, is first written to the folder.
        """
        folder.mkdir(exist_ok=True)
        files: list[tuple[str, Path]] = []
        for number, text in enumerate(self.texts):
            target = folder / f"{number:06}.txt"
            files.append((text if isinstance(text, str) else write_text(text, target), target))
        parts = [files[some] for some in blocks(len(files), 1 + len(files) // MOST_PARTS)]
        mark = BETWEEN_TOKENS if self.cut == "tokens" else " "
        cut = partial(pieces_of_files, column=self.column, marks=(b"\n", b"\r", mark.encode()), block=BLOCK)
        pieces = itertools.chain.from_iterable(pool.map("cut-text", cut, parts))
        return grouped(pieces, lambda piece: piece.stop - piece.start + 1, BLOCK)  # with an end of line each


def grouped(items: Iterable[Item], size_of: Callable[[Item], int], most: int) -> list[list[Item]]:
    """Return groups of items that follow each other, whose sizes sum to at most `most`, or of a single larger item.

    >>> grouped("abcdef", {"a": 40, "b": 40, "c": 40, "d": 100, "e": 10, "f": 90}.get, 100)
    [['a', 'b'], ['c'], ['d'], ['e', 'f']]
    """
    groups, room = list[list[Item]](), 0
    for item in items:
        size = size_of(item)
        if not groups or size > room:
            groups.append([])
            room = most
        groups[-1].append(item)
        room -= size
    return groups


def text_of(shard: Shard) -> bytes:
    """Return the text of a shard."""
    return b"\n".join(read_range(*piece).removeprefix(b"" if piece.start else paths.BOM) for piece in shard)


def pieces_of_files(
    files: list[tuple[str, Path]], column: str | None, marks: tuple[bytes, ...], block: int
) -> list[Piece]:
    """Cut files at ends of lines, near multiples of `block` bytes; first unpack those that are not plain text."""
    pieces = []
    for path, target in files:
        size = None if paths.is_table(path) else plain_size(path)
        if size is None:
            path = write_text(chunks_of_file(path, column), target)
            size = target.stat().st_size
        cuts = [0, *(cut_before(path, at, marks, min(NEAR, block)) for at in range(block, size, block)), size]
        pieces += [Piece(path, start, stop) for start, stop in itertools.pairwise(cuts) if start < stop]
    return pieces


def cut_before(path: str, position: int, marks: tuple[bytes, ...], near: int) -> int:
    """Return where to cut a file, at most `near` bytes before a position: after a line, a word, or a character."""
    text = read_range(path, position - near, position)
    for mark in marks:
        if (at := text.rfind(mark)) >= 0:
            return position - near + at + 1
    last = near - 1
    while last and text[last] & 0xC0 == 0x80:  # inside of a character
        last -= 1
    return position - near + last


def write_text(chunks: Iterable[bytes], target: Path) -> str:
    """Write text to a file; return its name."""
    with write_whole(target) as stream:
        stream.writelines(chunks)
    return str(target)


def chunks_of_file(path: str, column: str | None) -> Iterator[bytes]:
    """Yield the text of a file."""
    if paths.is_table(path):
        from pbos.tables.columns import words_of_table  # here, because it is an extra

        yield from map(line_of, words_of_table(path, column))
        return
    with nullcontext(sys.stdin.buffer) if path == "-" else paths.open_bytes(path) as stream:
        chunk = stream.read(CHUNK)
        check_start("stdin" if path == "-" else path, chunk)
        while chunk:
            yield chunk
            chunk = stream.read(CHUNK)


def check_start(path: str, head: bytes) -> None:
    """Raise FormatError if a file does not start as a text does."""
    paths.check_text(path, head)
    rows = sample_rows(head, 0)
    if rows and 2 * sum(count_numbers(row) == len(row) - 1 >= MANY for row in rows) >= len(rows):
        raise FormatError(f"{path}: these are word vectors, not text; train a model on them with pbos train")


def plain_size(path: str) -> int | None:
    """Return the size of a text file in bytes; None if it is compressed, or can be read only from its start."""
    with paths.open_file(path) as stream:
        head = stream.peek(paths.FIRST)
        if not stream.seekable() or paths.compression(head) is not None:
            return None
        check_start(path, head)
        return stream.seek(0, os.SEEK_END)


def read_range(path: str, start: int, stop: int) -> bytes:
    """Return some bytes of a file."""
    if paths.is_remote(path):
        with store_of(path) as (system, place):
            return bytes(system.cat_file(place, start=start, end=stop))
    with paths.open_file(path) as stream:
        stream.seek(start)
        return stream.read(stop - start)


def files_of(given: Iterable[str | os.PathLike[str]]) -> list[str]:
    """Return files, each once; patterns such as `*.txt.gz` are resolved in sorted order. `-` is stdin."""
    found: list[str] = []
    for path in given:
        name = os.fspath(path)
        if name != "-":
            name = paths.url_of(path) if paths.is_remote(path) else str(paths.to_local_path(path))
        if name == "-" or paths.exists(name):
            matches = [name]
        elif paths.is_remote(name):
            with store_of(name) as (system, place):
                infos = system.glob(place, detail=True)
                matches = sorted(system.unstrip_protocol(at) for at, info in infos.items() if info["type"] == "file")
        else:  # unlike those of Path.glob, the pattern may be absolute
            matches = sorted(file for file in glob.glob(name, recursive=True) if not Path(file).is_dir())  # noqa: PTH207
        if not matches:
            raise InputError(f"{name}: no such file; pass files, or patterns such as 'texts/*.txt.gz'")
        found += matches
    return list(dict.fromkeys(found))


def source_of(text: Any, column: str | None = None, pretokenized: bool = False) -> Source:
    """Return text in any form as a source: see `pbos.learn`."""
    cut = "spaces" if pretokenized else "words"
    if isinstance(text, (str, os.PathLike)):
        return source_of_files([text], column, cut)
    is_table_or_bytes = isinstance(text, (bytes, Mapping)) or hasattr(text, "columns")
    if is_table_or_bytes or not isinstance(text, Iterable) or getattr(text, "ndim", 1) != 1:
        raise InputError(f"text must be files, sentences or lists of tokens, got {type(text).__name__}")
    if hasattr(text, "to_pylist"):  # columns of Arrow, chunk by chunk
        text = itertools.chain.from_iterable(chunk.to_pylist() for chunk in getattr(text, "chunks", [text]))
    items: Iterator[Any] = (item for item in text if not is_missing(item))
    first = next(items, None)
    if first is None:
        raise InputError("there is no text; pass at least one sentence")
    items = itertools.chain([first], items)
    if isinstance(first, os.PathLike):
        return source_of_files(items, column, cut)
    if not isinstance(first, str):
        sentences = (map(partial(re.sub, NOT_IN_TOKENS, " "), checked(one, str)) for one in checked(items, Iterable))
        return Source([map(line_of, map(BETWEEN_TOKENS.join, sentences))], None, "tokens")
    if os.path.isfile(first):  # noqa: PTH113  # a long sentence is no error
        raise InputError(f"{first} is a file, not a sentence; pass files as a list of Path")
    return Source([map(line_of, checked(items, str))], None, cut)


def source_of_files(given: Iterable[str | os.PathLike[str]], column: str | None, cut: str) -> Source:
    """Return the text of files, or of those that patterns match; `-` is stdin."""
    found = files_of(given)
    if column is not None and not all(map(paths.is_table, found)):
        raise InputError("a column is for tables; all files must end in .parquet, .arrow, .feather, .csv or .tsv")
    texts: list[str | Iterable[bytes]] = []
    for name in found:
        is_file = paths.is_remote(name) or (name != "-" and Path(name).is_file())  # and not stdin or a pipe
        texts.append(paths.everywhere(name) if is_file else chunks_of_file(name, column))
    return Source(texts, column, cut)


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
