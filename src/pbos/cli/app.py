"""The application: all commands, in the order of `pbos --help`."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from pbos import __version__
from pbos.cli import compile as compiling
from pbos.cli import eval as evaluation
from pbos.cli import files, learn, serve, words
from pbos.cli.common import message, note
from pbos.cli.options import Command
from pbos.errors import PbosError

UsageError: Any = typer.BadParameter.__base__  # of click or, in later versions, of typer itself
app = typer.Typer(
    name="pbos",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"pbos {__version__}")
        raise typer.Exit


@app.callback()
def pbos(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """A vector for every word, from the word vectors you already have and the word's spelling.

    \b
    Examples:
      pbos explain unfriendliest
      pbos neighbors unfriendliest
      cat words.txt | pbos embed > vectors.txt
      pbos train vectors.vec -o my-model
      pbos learn corpus.txt -o my-model
      pbos complete vectors.vec words.txt -o completed.vec
    """
    warnings.formatwarning = lambda warning, *_, **__: f"pbos: warning: {message(warning)}\n"


@contextmanager
def errors_as_sentences() -> Iterator[None]:
    """End the program with one sentence and exit code 2 on bad input, and quietly if its output is closed."""
    try:
        yield
        sys.stdout.flush()
        return
    except PbosError as error:
        sentence = str(error)
    except MemoryError as error:
        sentence = f"not enough memory ({error}); train and learn can use less: see --memory"
    except OSError as error:
        try:
            sys.stdout.flush()
        except OSError:  # Python would complain when it flushes stdout at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # as with `| head`, which is no error
            return
        said = error.strerror or str(error)
        sentence = f"{said[:1].lower()}{said[1:]}" + (f": {error.filename}" if error.filename else "")
    note(sentence)
    sys.exit(2)


@errors_as_sentences()
def start() -> None:
    """Run the application; its output is UTF-8."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        code = app(prog_name="pbos", standalone_mode=False)
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":  # its message is the help
            error.message = message(error.message)
        options = error.ctx.command.params if error.ctx else []
        if "unexpected extra arg" in error.message and any("--model" in option.opts for option in options):
            error.message += ". Choose a model with -m"
        error.show()
        code = error.exit_code
    if code:
        sys.exit(code)


COMMANDS: tuple[Callable[..., None], ...] = (
    words.segment,
    words.explain,
    words.embed,
    words.neighbors,
    words.similarity,
    files.train,
    files.get,
    learn.count,
    learn.learn,
    files.complete,
    files.info,
    files.compress,
    files.convert,
    compiling.compile,
    serve.serve,
)
MEASURES: tuple[Callable[..., None], ...] = (evaluation.similarity, evaluation.heldout)
measure = typer.Typer(help="Evaluate models on your data.", no_args_is_help=True)
for group, commands in ((app, COMMANDS), (measure, MEASURES)):
    for command in commands:
        first_sentence = f"{str(command.__doc__).partition('.')[0]}."  # typer would cut it
        group.command(cls=Command, short_help=first_sentence)(errors_as_sentences()(command))
app.add_typer(measure, name="eval")
