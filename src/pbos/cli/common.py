"""What commands read and write: words from arguments, a file or stdin; lines on stdout and stderr."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pbos.errors import InputError, for_terminal, one_line, shortened
from pbos.files.paths import decoded_lines, is_table, lines_between, open_bytes, to_local_path, words_of_lines

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Item = TypeVar("Item")
MAX_SHOWN = 5
BATCH = 8192  # words per step, so that memory does not grow with their number


def check_column(column: str | None, *files: str | None) -> None:
    """Raise InputError if --column is given and none of the files is a table."""
    if column is not None and not any(file is not None and is_table(file) for file in files):
        raise InputError("--column is for tables; use it with a .parquet, .arrow, .feather, .csv or .tsv file")


def words_from(
    words: list[str] | None, file: str | None, column: str | None = None, missing: str = "skip"
) -> Iterator[str]:
    """Yield the words given as arguments, none of which may be empty, or those of a table, a text file or stdin."""
    if words:
        if file is not None:
            raise InputError("give words as arguments or a file with --input, not both")
        if "" in words:
            raise InputError(f"argument {words.index('') + 1}: the word is empty; remove it")
        for word in words:
            warn_path(word)
        yield from words
    elif file is not None and is_table(file):
        from pbos.tables.columns import words_of_table

        yield from handle_missing(words_of_table(file, column), f"{file}, row", missing)
    else:
        if file is None and sys.stdin.isatty():
            note("reading words from the keyboard, one per line; end with Ctrl-D")
        yield from handle_missing(lines_of(file, words_of_lines), f"{name_of(file)}, line", missing)


def warn_path(word: str) -> None:
    """Warn about a word that is the name of a model or of a file, which is probably meant to be read."""
    path = Path(word)
    with suppress(OSError, ValueError):  # no name of a file
        if (path / "model.safetensors").is_file():
            note(f"warning: {word} is taken as a word; to use the model in this folder, write -m {word}")
        elif path.suffix and path.is_file():
            note(f"warning: {word} is taken as a word; to read words from this file, write -i {word}")


def handle_missing(words: Iterable[str], place: str, missing: str) -> Iterator[str]:
    """Yield words; skip or pass on empty ones, with a warning at the end, or raise InputError, as --missing says."""
    count, first = 0, ""
    for number, word in enumerate(words, 1):
        if not word:
            if missing == "error":
                raise InputError(f"{place} {number}: no word here; leave out --missing error to skip it")
            count, first = count + 1, first or f"{place} {number}"
        if word or missing != "skip":
            yield word
    warn_missing(count, missing, first)


def warn_missing(count: int, missing: str, first: str = "") -> None:
    """Warn about missing words, if there were any."""
    if count:
        done = {"skip": "left out", "zeros": "given zeros", "null": "given null"}[missing]
        words = "word was" if count == 1 else "words were"
        note(f"warning: {count:,} missing {words} {done}" + (f" (first: {first})" if first else ""))


def lines_of(file: str | None, decode: Callable[..., Iterator[str]] = decoded_lines) -> Iterator[str]:
    """Yield the lines of a file, possibly compressed, or of stdin, without reading all of them at once."""
    is_stdin = file is None or file == "-"
    with nullcontext(sys.stdin.buffer) if is_stdin else open_bytes(str(file)) as stream:
        if not (is_stdin and sys.stdin.isatty()) and not cast(io.BufferedReader, stream).peek(1):
            note(f"warning: {name_of(file)} is empty")
        yield from map(str.strip, decode(lines_between(stream), f"{name_of(file)}, line"))


def name_of(file: str | None) -> str:
    """Return the name of an input in messages."""
    return "stdin" if file is None or file == "-" else file


def batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Cut a stream into lists."""
    items = iter(items)
    return iter(lambda: list(islice(items, BATCH)), [])


def note(sentence: str) -> None:
    """Write a line to stderr, which may be closed."""
    with suppress(OSError):
        sys.stderr.write(f"pbos: {message(sentence)}\n")


def message(sentence: object) -> str:
    """Return what stderr shows of a message: one line, not too long."""
    shown = one_line(shortened(str(sentence)))
    return for_terminal(shown) if sys.stderr.isatty() else shown


def write(line: str) -> None:
    """Write a line, or several, to stdout; a terminal, which would obey control characters, gets them escaped."""
    sys.stdout.write((for_terminal(line) if sys.stdout.isatty() else line) + "\n")


def write_result(as_json: bool, value: Any, rows: Iterable[Iterable[object]]) -> None:
    """Write a result as a line of JSON, or as rows: tabs between their fields, tabs and line ends in these escaped."""
    if as_json:
        write(json.dumps(value, ensure_ascii=False))
        return
    for row in rows:
        write("\t".join(one_line(str(field)) for field in row))


class Uncovered:
    """Counts the words without a known subword, whose vectors are zero, and warns about them at the end."""

    def __init__(self, count: int = 0, first: Iterable[str] = ()) -> None:
        self.count = count
        self.first = list(first)

    def add(self, words: list[str], vectors: NDArray[float32]) -> None:
        """Count the words whose vectors are zero, except missing words."""
        zeros = [words[row] for row in (vectors == 0).all(axis=1).nonzero()[0].tolist() if words[row]]
        self.count += len(zeros)
        self.first += zeros[: MAX_SHOWN - len(self.first)]

    def warn(self) -> None:
        """Warn on stderr, if there were any."""
        if self.count:
            words = "word has" if self.count == 1 else "words have"
            shown = ", ".join(self.first) + (", ..." if self.count > len(self.first) else "")
            note(f"warning: {self.count} {words} no subword with a vector and got zeros: {shown}")


def output_path(name: str) -> str:
    """Return where to write: - is stdout."""
    return "/dev/stdout" if name == "-" else name


def texts_of(names: list[str] | None) -> Path | list[Path]:
    """Return the files to read; without any, stdin."""
    if not names and sys.stdin.isatty():
        note("reading text from the keyboard; end with Ctrl-D")
    paths = [Path(name) if name else to_local_path(name) for name in names or ["-"]]  # Path("") would be this folder
    return paths[0] if len(paths) == 1 else paths
