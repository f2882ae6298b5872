"""Options and arguments that several commands have, and those made from the settings of a model."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import Field, fields
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

from typer import Argument, BadParameter, Option
from typer.core import TyperCommand

from pbos.settings import DTYPES, INCLUDED, PRESETS, Preset

Function = Callable[..., None]
RESOURCES, SETTINGS_OF_MODEL = "Resources", "Settings of the model"  # sections of the help


class Command(TyperCommand):
    """A command whose help shows options in sections, those that most people need first."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return what follows the name of the command in its usage."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            if record := one.get_help_record(ctx):
                is_argument = one.param_type_name == "argument"
                section = "Arguments" if is_argument else getattr(one, "rich_help_panel", None) or "Options"
                sections.setdefault(section, []).append((str(one.metavar), record[1]) if is_argument else record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def one_of(names: Sequence[str], help: str, *, number: bool = False, section: str | None = None) -> Any:
    """Declare an option whose value is one of some names or, with `number`, a number."""
    choices = [*names, "NUMBER"] if number else names

    def parse(value: str) -> str | float:
        if value in names:
            return value
        with suppress(ValueError):
            if number:
                return float(value)
        raise BadParameter(f"{value!r} is not one of: {', '.join(choices)}")

    return Option(
        parser=parse, metavar="|".join(choices), help=help, autocompletion=lambda: names, rich_help_panel=section
    )


Words = Annotated[list[str] | None, Argument(metavar="WORD", help="Words; default: the lines of stdin.")]
Model = Annotated[
    str | None,
    Option(
        "-m",
        "--model",
        metavar="FOLDER",
        help="The model: a folder, a URL, or russian; default: the included English model.",
        autocompletion=lambda: INCLUDED,
    ),
]
Input = Annotated[
    str | None, Option("-i", "--input", metavar="FILE", help="Read words from a file, one per line (- for stdin).")
]
Column = Annotated[
    str | None,
    Option(metavar="NAME", help="Tables: the column of words; default: the only column of strings, or word."),
]
ModelOutput = Annotated[
    str, Option("-o", "--output", metavar="FOLDER", help="Where to save the model: a folder or URL.")
]
Force = Annotated[bool, Option("--force", help="Replace an existing model.")]
Counts = Annotated[
    str | None, Option("-c", "--counts", metavar="FILE", help="Word counts: a file, or a language code such as en.")
]
PresetName = Annotated[str, one_of(tuple(PRESETS), "A named set of settings.")]
DType = Annotated[str, one_of(DTYPES, "How to store the vectors.")]
Threads = Annotated[
    int | None, Option(min=1, metavar="N", help="Number of threads; default: one per core.", rich_help_panel=RESOURCES)
]
Scheduler = Annotated[
    str | None,
    Option(
        metavar="ADDRESS",
        help="Run on a Dask cluster (extra dask): tcp://HOST:8786, or local for processes on this machine.",
        rich_help_panel=RESOURCES,
    ),
]
Memory = Annotated[
    str | None,
    Option(metavar="SIZE", help="Memory limit, such as 8G; the rest is kept on disk.", rich_help_panel=RESOURCES),
]
Seed = Annotated[int, Option(min=0, metavar="N", help="Random seed.")]
Verbose = Annotated[bool, Option("--verbose", help="Also print the settings that training chose, and how.")]
Json = Annotated[bool, Option("--json", help="Write JSON, one object per line.")]


def _of_setting(setting: Field[Any]) -> Any:
    help, choices = setting.metadata["help"], setting.metadata["choices"]
    types = get_type_hints(Preset)[setting.name]
    kind, *others = get_args(types) or [types]
    if words := [word for other in others for word in get_args(other)]:  # lam is a number or "auto"
        return Annotated[str | None, one_of(words, help, number=True, section=SETTINGS_OF_MODEL)]
    if choices:
        return Annotated[str | None, one_of(choices, help, section=SETTINGS_OF_MODEL)]
    metavar = {int: "N", float: "NUMBER"}.get(kind)
    return Annotated[kind | None, Option(metavar=metavar, help=help, rich_help_panel=SETTINGS_OF_MODEL)]


SETTINGS = {one.name: _of_setting(one) for one in fields(Preset)}  # of a model, as options


def with_options(declared: type, *settings: str) -> Callable[[Function], Function]:
    """Replace the `**given` of a command by options: those that a class declares as its fields, and some settings.

    The command gets those that are not None.
    """
    options = get_type_hints(declared, include_extras=True) | {name: SETTINGS[name] for name in settings}

    def decorate(command: Function) -> Function:
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
