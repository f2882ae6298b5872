"""What the commands share: common options, words from arguments, a file or stdin, and output."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pbos.errors import InputError, PbosWarning

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from pbos.model import Model

MAX_SHOWN = 5
BATCH = 8192  # words per step, so that memory does not grow with their number


# -- options -----------------------------------------------------------------------------------------------------------


def one_of(names: Sequence[str], help: str, *, number: bool = False) -> Any:
    """Declare an option whose value is one of some names or, with `number`, a number."""

    def parse(value: str) -> str | float:
        if value in names:
            return value
        try:
            if number:
                return float(value)
        except ValueError:
            pass
        raise typer.BadParameter(f"{value!r} is not one of: {shown.replace('|', ', ')}")

    shown = "|".join([*names, *(["NUMBER"] if number else [])])
    return typer.Option(parser=parse, metavar=shown, help=help)


ModelOption = Annotated[
    str | None,
    typer.Option("-m", "--model", metavar="FOLDER", help="The model; by default the English model of pbos."),
]
WordsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="WORD", help="The words; without any, they are read from stdin.")
]
InputOption = Annotated[
    Path | None,
    typer.Option("-i", "--input", metavar="FILE", help="Read words from a file, one per line (- for stdin)."),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="The number of threads; by default one per core.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, one object per line.")]


# -- models ------------------------------------------------------------------------------------------------------------


def load_model(path: str | None) -> Model:
    """Load a model."""
    prepare()
    from pbos.model import load

    return load(path)


@cache
def prepare() -> None:
    """Print the warnings of pbos as one line each, and announce Numba's first compilation, which takes seconds."""
    from numba.core import event

    class Announcer(event.Listener):  # type: ignore[misc]  # Numba is untyped
        announced = False

        def on_start(self, event: Any) -> None:
            if not self.announced:
                note("compiling for this machine, the first time only; this takes some seconds")
                self.announced = True

        def on_end(self, event: Any) -> None:
            pass

    event.register("numba:compile", Announcer())
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
        if issubclass(category, PbosWarning):
            note(f"warning: {message}")
        else:
            usual(message, category, *place, **more)

    warnings.showwarning = show


# -- input -------------------------------------------------------------------------------------------------------------


def words_from(words: list[str] | None, file: Path | None, missing: str | None = None) -> Iterator[str]:
    """Yield the words given as arguments, or the lines of a file or of stdin.

    Args:
        words: The arguments.
        file: The file of `--input`.
        missing: The choice of `--missing`; None for commands without it. Unless it is "zeros", an empty word is an
            error that names its place.
    """
    if words and file is not None:
        raise InputError("give words as arguments or a file with --input, not both")
    if not words and file is None and sys.stdin.isatty():
        note("reading words from the keyboard, one per line; end with Ctrl-D")
    place = "argument" if words else f"{name_of(file)}, line"
    for number, word in enumerate(words or lines_of(file), 1):
        if not word and missing != "zeros":
            hint = "; remove it" if missing is None else "; remove it, or give it a zero vector with --missing zeros"
            raise InputError(f"{place} {number}: the word is empty{hint}")
        yield word


def lines_of(file: Path | None) -> Iterator[str]:
    """Yield the lines of a file, maybe compressed, or of stdin, without reading all of them at once."""
    from pbos.files import open_bytes

    def decoded(stream: Iterable[bytes]) -> Iterator[str]:
        for number, line in enumerate(stream, 1):
            try:
                yield line.rstrip(b"\r\n").decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError(f"{name_of(file)}, line {number} is not UTF-8; convert the file first") from None

    if name_of(file) == "stdin":
        yield from decoded(sys.stdin.buffer)
    else:
        with open_bytes(str(file)) as stream:
            yield from decoded(stream)


def name_of(file: Path | None) -> str:
    """Return the name of an input in error messages."""
    return "stdin" if file is None or str(file) == "-" else str(file)


def batches(words: Iterable[str], size: int = BATCH) -> Iterator[list[str]]:
    """Cut a stream of words into lists."""
    words = iter(words)
    while batch := list(islice(words, size)):
        yield batch


# -- output ------------------------------------------------------------------------------------------------------------


def note(sentence: str) -> None:
    """Write a line to stderr."""
    sys.stderr.write(f"pbos: {sentence}\n")
    sys.stderr.flush()


def write(line: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(line + "\n")


def write_json(value: Any) -> None:
    """Write a value as one line of JSON."""
    write(json.dumps(value, ensure_ascii=False))


class Uncovered:
    """Counts the words without a known subword, whose vectors are zero, and warns about them at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def add(self, words: list[str], vectors: NDArray[float32]) -> None:
        """Count the words whose vectors are zero, except missing words."""
        zeros = [words[at] for at in (~vectors.any(axis=1)).nonzero()[0].tolist() if words[at]]
        self.count += len(zeros)
        self.first += zeros[: MAX_SHOWN - len(self.first)]

    def warn(self) -> None:
        """Warn on stderr, if there were any."""
        if self.count:
            shown = ", ".join(self.first) + (", ..." if self.count > len(self.first) else "")
            plural = "word has" if self.count == 1 else "words have"
            note(f"warning: {self.count} {plural} no subword with a vector and got zeros: {shown}")
