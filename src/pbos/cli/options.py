"""Options and arguments that several commands have, and those made from the settings of a model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import Field, fields
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

from typer import Argument, BadParameter, Option

from pbos.settings import DTYPES, INCLUDED, PRESETS, Preset

Command = Callable[..., None]


def one_of(names: Sequence[str], help: str, *, number: bool = False) -> Any:
    """Declare an option whose value is one of some names or, with `number`, a number."""
    choices = [*names, "NUMBER"] if number else names

    def parse(value: str) -> str | float:
        if value in names:
            return value
        with suppress(ValueError):
            if number:
                return float(value)
        raise BadParameter(f"{value!r} is not one of: {', '.join(choices)}")

    return Option(parser=parse, metavar="|".join(choices), help=help, autocompletion=lambda: names)


Words = Annotated[list[str] | None, Argument(metavar="WORD", help="Words; by default, the lines of stdin.")]
Model = Annotated[
    str | None,
    Option(
        "-m",
        "--model",
        metavar="FOLDER",
        help="The model: a folder, a URL, or russian; by default the English one of pbos.",
        autocompletion=lambda: INCLUDED,
    ),
]
Input = Annotated[str | None, Option("-i", "--input", metavar="FILE", help="Read lines from a file (- for stdin).")]
Column = Annotated[
    str | None, Option(metavar="NAME", help="Tables: the column of words; by default the only one of strings, or word.")
]
ModelOutput = Annotated[str, Option("-o", "--output", metavar="FOLDER", help="Where to save it: a folder or URL.")]
Force = Annotated[bool, Option("--force", help="Replace a model that is there already.")]
Counts = Annotated[
    str | None, Option("-c", "--counts", metavar="FILE", help="Word counts: a file, or a language code such as en.")
]
PresetName = Annotated[str, one_of(tuple(PRESETS), "A named set of settings.")]
DType = Annotated[str, one_of(DTYPES, "How to store the vectors.")]
Threads = Annotated[int | None, Option(min=1, help="The number of threads; by default one per core.")]
Scheduler = Annotated[
    str | None,
    Option(
        metavar="ADDRESS",
        help="Work on a Dask cluster (extra dask): tcp://HOST:8786, or local for processes on this machine.",
    ),
]
Json = Annotated[bool, Option("--json", help="Write JSON, one object per line.")]


def _of_setting(setting: Field[Any]) -> Any:
    help, choices = setting.metadata["help"], setting.metadata["choices"]
    types = get_type_hints(Preset)[setting.name]
    kind, *others = get_args(types) or [types]
    if words := [word for other in others for word in get_args(other)]:  # lam is a number or "auto"
        return Annotated[str | None, one_of(words, help, number=True)]
    return Annotated[str | None, one_of(choices, help)] if choices else Annotated[kind | None, Option(help=help)]


SETTINGS = {one.name: _of_setting(one) for one in fields(Preset)}  # of a model, as options


def with_options(declared: type, *settings: str) -> Callable[[Command], Command]:
    """Replace the `**given` of a command by options: those that a class declares as its fields, and some settings.

    The command gets those that are not None.
    """
    options = get_type_hints(declared, include_extras=True) | {name: SETTINGS[name] for name in settings}

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        *parameters, _ = signature.parameters.values()
        for name, kind in options.items():
            default = getattr(declared, name, None)
            parameters.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind))

        @wraps(command)
        def run(**values: Any) -> None:
            names = [name for name, value in values.items() if value is not None or name in signature.parameters]
            command(**{name: values[name] for name in names})

        run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return decorate
