"""What the commands share: common options, words from arguments, a file or stdin, and output."""

from __future__ import annotations

import inspect
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import Field, fields
from functools import wraps
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar, cast, get_args, get_type_hints

import typer

from pbos.errors import InputError, for_terminal, one_line, shortened
from pbos.files.paths import decoded_lines, is_table, lines_between, open_bytes, words_of_lines
from pbos.settings import INCLUDED, PRESETS, Preset

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

Command = Callable[..., None]
Item = TypeVar("Item")
MAX_SHOWN = 5
BATCH = 8192  # words per step, so that memory does not grow with their number


def one_of(names: Sequence[str], help: str, *, number: bool = False) -> Any:
    """Declare an option whose value is one of some names or, with `number`, a number."""
    shown = "|".join([*names, "NUMBER"] if number else names)

    def parse(value: str) -> str | float:
        if value in names:
            return value
        with suppress(ValueError):
            if number:
                return float(value)
        raise typer.BadParameter(f"{value!r} is not one of: {shown.replace('|', ', ')}")

    return typer.Option(parser=parse, metavar=shown, help=help, autocompletion=offer(lambda: names))


def offer(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Return a function that completes names in a shell; they are not asked for before."""

    def complete(start: str) -> list[str]:
        return [name for name in names() if name.startswith(start)]

    return complete


def with_settings(*names: str) -> Callable[[Command], Command]:
    """Replace the `**settings` of a command by options for some settings of `Preset`; it gets those that were given."""
    types = get_type_hints(Preset)

    def parameter(setting: Field[Any]) -> inspect.Parameter:
        help, choices = setting.metadata["help"], setting.metadata["choices"]
        kind, *others = get_args(types[setting.name]) or [types[setting.name]]
        words = [word for other in others for word in get_args(other)]  # lam is a number or "auto"
        option = typer.Option(help=help)
        if choices or words:
            kind, option = str, one_of(choices or words, help, number=bool(words))
        annotation = Annotated[kind | None, option]  # type: ignore[valid-type]
        return inspect.Parameter(setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        *own, _ = signature.parameters.values()
        options = [parameter(setting) for setting in fields(Preset) if setting.name in names]

        @wraps(command)
        def run(**given: Any) -> None:
            command(**{name: value for name, value in given.items() if name not in names or value is not None})

        run.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        return run

    return decorate


ModelOption = Annotated[
    str | None,
    typer.Option(
        "-m",
        "--model",
        metavar="FOLDER",
        help="The model: a folder, a URL, or russian; by default the English one of pbos.",
        autocompletion=offer(lambda: INCLUDED),
    ),
]
WordsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WORD", help="Words; if there are none, lines are read from stdin.")
]
InputOption = Annotated[
    str | None, typer.Option("-i", "--input", metavar="FILE", help="Read lines from a file (- for stdin).")
]
ColumnOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Tables: the column of words; by default the only one of strings, or word."),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="The number of threads; by default one per core.")]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Work on a Dask cluster (extra dask): tcp://HOST:8786, or local for processes on this machine.",
    ),
]
CountsOption = Annotated[
    str | None,
    typer.Option("-c", "--counts", metavar="FILE", help="Word counts: a file, or a language code such as en."),
]
PresetOption = Annotated[str, one_of(tuple(PRESETS), "A named set of settings.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, one object per line.")]


def check_column(column: str | None, *files: str | None) -> None:
    """Raise InputError if --column is given and none of the files is a table."""
    if column is not None and not any(file is not None and is_table(file) for file in files):
        raise InputError("--column is for tables; give it with a file .parquet, .arrow, .feather, .csv or .tsv")


def words_from(
    words: list[str] | None, file: str | None, column: str | None = None, missing: str = "skip"
) -> Iterator[str]:
    """Yield the words given as arguments, none of which may be empty, or those of a table, a text file or stdin."""
    if words:
        if file is not None:
            raise InputError("give words as arguments or a file with --input, not both")
        if "" in words:
            raise InputError(f"argument {words.index('') + 1}: the word is empty; remove it")
        yield from words
    elif file is not None and is_table(file):
        from pbos.tables.columns import words_of_table

        yield from without_missing(words_of_table(file, column), f"{file}, row", missing)
    else:
        if file is None and sys.stdin.isatty():
            note("reading words from the keyboard, one per line; end with Ctrl-D")
        yield from without_missing(lines_of(file, words_of_lines), f"{name_of(file)}, line", missing)


def without_missing(words: Iterable[str], place: str, missing: str) -> Iterator[str]:
    """Yield words; of missing ones, do what --missing says, and warn about their number at the end.

    Args:
        words: The words; a missing one is an empty string.
        place: What comes before the number of a word in messages, which is counted from 1.
        missing: "error", "skip" to leave them out, or "zeros" or "null" to yield them.
    """
    count, where = 0, ""
    for number, word in enumerate(words, 1):
        if word:
            yield word
            continue
        if missing == "error":
            raise InputError(f"{place} {number}: there is no word; leave out --missing error to go on without it")
        count, where = count + 1, where or f"{place} {number}"
        if missing != "skip":
            yield word
    warn_missing(count, missing, where)


def warn_missing(count: int, missing: str, first: str | None = None) -> None:
    """Warn about missing words, if there were any."""
    if count:
        done = {"skip": "left out", "zeros": "given zeros", "null": "given null"}[missing]
        plural = "word was" if count == 1 else "words were"
        note(f"warning: {count:,} missing {plural} {done}" + (f" (first: {first})" if first else ""))


def lines_of(file: str | None, decode: Callable[..., Iterator[str]] = decoded_lines) -> Iterator[str]:
    """Yield the lines of a file, possibly compressed, or of stdin, without reading all of them at once."""
    opened = nullcontext(sys.stdin.buffer) if file is None or file == "-" else open_bytes(file)
    with opened as stream:
        if file not in (None, "-") and not cast(io.BufferedReader, stream).peek(1):
            note(f"warning: {file} is empty")
        yield from map(str.strip, decode(lines_between(stream), f"{name_of(file)}, line"))


def name_of(file: str | None) -> str:
    """Return the name of an input in error messages."""
    return "stdin" if file is None or file == "-" else file


def batches(items: Iterable[Item]) -> Iterator[list[Item]]:
    """Cut a stream into lists."""
    items = iter(items)
    return iter(lambda: list(islice(items, BATCH)), [])


def note(sentence: str) -> None:
    """Write a line to stderr; if nobody reads it, that is no reason to stop."""
    with suppress(OSError):
        sys.stderr.write(f"pbos: {message(sentence)}\n")
        sys.stderr.flush()


def message(sentence: object) -> str:
    """Return what stderr shows of a message: one line, not too long."""
    return shown(one_line(shortened(str(sentence))), sys.stderr)


def shown(text: str, stream: TextIO) -> str:
    """Return a text as it is or, for a terminal, without what it would obey: words of others may have anything."""
    return for_terminal(text) if stream.isatty() else text


def write(line: str) -> None:
    """Write a line, or several, to stdout."""
    sys.stdout.write(shown(line, sys.stdout) + "\n")


def write_row(*fields: object) -> None:
    """Write a line of fields with tabs between them; they have escapes for tabs and ends of lines."""
    write("\t".join(one_line(str(field)) for field in fields))


def write_json(value: Any) -> None:
    """Write a value as one line of JSON."""
    write(json.dumps(value, ensure_ascii=False))


class Uncovered:
    """Counts the words without a known subword, whose vectors are zero, and warns about them at the end."""

    def __init__(self, count: int = 0, first: Iterable[str] = ()) -> None:
        self.count = count
        self.first = list(first)

    def add(self, words: list[str], vectors: NDArray[float32]) -> None:
        """Count the words whose vectors are zero, except missing words."""
        zeros = [words[at] for at in (vectors == 0).all(axis=1).nonzero()[0].tolist() if words[at]]
        self.count += len(zeros)
        self.first += zeros[: MAX_SHOWN - len(self.first)]

    def warn(self) -> None:
        """Warn on stderr, if there were any."""
        if self.count:
            shown = ", ".join(self.first) + (", ..." if self.count > len(self.first) else "")
            plural = "word has" if self.count == 1 else "words have"
            note(f"warning: {self.count} {plural} no subword with a vector and got zeros: {shown}")
