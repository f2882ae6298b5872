"""What the commands share: their common options, words from arguments, file or stdin, and output."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from numpy import float32
    from numpy.typing import NDArray

    from pbos.model import Model

MAX_SHOWN = 5
BATCH = 8192  # words worked on at a time: memory stays the same for any number of words

ModelOption = Annotated[
    str | None,
    typer.Option("-m", "--model", metavar="MODEL", help="A model folder; by default the English model of pbos."),
]
WordsArgument = Annotated[list[str] | None, typer.Argument(metavar="WORD", help="Words; none: read from stdin.")]
InputOption = Annotated[
    Path | None, typer.Option("-i", "--input", metavar="FILE", help="Read words from a file, one a line (- for stdin).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON, one object a line.")]


def load_model(path: str | None) -> Model:
    """Load a model."""
    prepare()
    from pbos.model import load

    return load(path)


@cache
def prepare() -> None:
    """Have pbos's warnings shown as one line each, and Numba's first compilation announced: it takes some seconds."""
    from numba.core import event

    # Numba imports SciPy for its BLAS if it can; our kernels need none, and it takes a quarter of a second.
    hidden = {} if "scipy" in sys.modules else {"scipy": None}
    sys.modules.update(hidden)  # type: ignore[arg-type]
    import numba.np.arraymath  # noqa: F401

    for name in hidden:
        del sys.modules[name]

    from pbos.errors import PbosWarning

    class Announcer(event.Listener):  # type: ignore[misc]  # Numba is untyped
        told = False

        def on_start(self, event: Any) -> None:
            if not self.told:
                note("compiling for this machine, the first time only; this takes some seconds")
                self.told = True

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


def note(sentence: str) -> None:
    """Write a line to stderr, away from the output."""
    sys.stderr.write(f"pbos: {sentence}\n")
    sys.stderr.flush()


def words_from(words: list[str] | None, file: Path | None) -> Iterator[str]:
    """Yield the words: the arguments, or a file's lines, or those of stdin."""
    from pbos.errors import InputError

    if words and file is not None:
        raise InputError("give words as arguments or a file with --input, not both")
    if words:
        yield from words
        return
    if file is None and sys.stdin.isatty():
        note("reading words from the keyboard, one a line; end with Ctrl-D")
    yield from lines_of(file)


def lines_of(file: Path | None) -> Iterator[str]:
    """Yield the lines of a file (whatever its compression) or of stdin; an empty one is an error."""
    from pbos.errors import InputError
    from pbos.files import open_bytes

    def decoded(stream: Iterable[bytes], name: str) -> Iterator[str]:
        for number, line in enumerate(stream, 1):
            try:
                word = line.rstrip(b"\r\n").decode()
            except UnicodeDecodeError:
                raise InputError(f"{name}, line {number}: not UTF-8; convert the file first") from None
            if not word:
                raise InputError(f"{name}, line {number}: an empty word has no spelling to work with") from None
            yield word

    if file is None or str(file) == "-":
        yield from decoded(sys.stdin.buffer, "stdin")
    else:
        with open_bytes(file) as stream:
            yield from decoded(stream, str(file))


def batches(words: Iterable[str], size: int) -> Iterator[list[str]]:
    """Cut a stream of words into lists."""
    batch: list[str] = []
    for word in words:
        batch.append(word)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch


def write(line: str) -> None:
    """Write a line to stdout."""
    sys.stdout.write(line + "\n")


def write_json(value: Any) -> None:
    """Write a value as one line of JSON."""
    write(json.dumps(value, ensure_ascii=False))


class Uncovered:
    """Counts the words that got a zero vector, and warns about them at the end."""

    def __init__(self) -> None:
        self.count = 0
        self.first: list[str] = []

    def look_at(self, words: list[str], vectors: NDArray[float32]) -> None:
        """Take note of the words whose vectors are zero."""
        zeros = (vectors == 0).all(axis=1).nonzero()[0].tolist()
        self.count += len(zeros)
        self.first += [words[at] for at in zeros[: MAX_SHOWN - len(self.first)]]

    def warn(self) -> None:
        """Warn on stderr, if there was any."""
        if self.count:
            shown = ", ".join(self.first) + (", ..." if self.count > len(self.first) else "")
            plural = "word has" if self.count == 1 else "words have"
            note(f"warning: {self.count} {plural} no subword with a vector and got zeros: {shown}")
