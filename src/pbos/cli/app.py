"""The application: all commands, in the order of `pbos --help`."""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, NoReturn

import typer

from pbos import __version__
from pbos.cli import compile as compiling
from pbos.cli import eval as evaluation
from pbos.cli import files, learn, serve, spelling, vectors
from pbos.cli import get as getting
from pbos.cli.common import message, note
from pbos.errors import PbosError

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


def start() -> None:
    """Run the application; a mistake in its arguments is shown in brief, and with what to do."""
    try:
        code = app(prog_name="pbos", standalone_mode=False)
    except Exception as error:
        if not hasattr(error, "show"):  # as errors of typer and click have
            raise
        usage: Any = error
        options = usage.ctx.command.params if getattr(usage, "ctx", None) else []
        takes_model = any("--model" in option.opts for option in options)
        hint = ". Choose a model with -m" if takes_model and "unexpected extra arg" in usage.message else ""
        usage.message = message(usage.message) + hint
        usage.show()
        code = usage.exit_code
    if code:
        sys.exit(code)


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end with one sentence and exit code 2 on bad input, and quietly if its output is closed."""

    @wraps(command)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
            sys.stdout.flush()
        except PbosError as error:
            fail(str(error))
        except MemoryError as error:
            fail(f"not enough memory ({error}); train and learn can do with less: see --memory")
        except OSError as error:
            drop_output()
            if not isinstance(error, BrokenPipeError):  # as with `| head`, which is no error
                place = f": {error.filename}" if error.filename else ""
                said = error.strerror or str(error)
                fail(f"{said[:1].lower()}{said[1:]}{place}")

    return run


def drop_output() -> None:
    """Drop output that cannot be written; otherwise Python complains when it flushes stdout at exit."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(sentence: str) -> NoReturn:
    """Print an error message and exit."""
    note(sentence)
    sys.exit(2)


COMMANDS: tuple[Callable[..., None], ...] = (
    spelling.segment,
    spelling.explain,
    vectors.embed,
    vectors.neighbors,
    vectors.similarity,
    files.train,
    getting.get,
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
        sentence = re.split(r"(?<=\.)\s", command.__doc__ or "", maxsplit=1)[0]  # a whole one, which typer would cut
        group.command(short_help=" ".join(sentence.split()))(guarded(command))
app.add_typer(measure, name="eval")
