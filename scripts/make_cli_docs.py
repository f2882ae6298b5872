"""Write docs/cli.md from the `--help` of all commands; a test checks that it is up to date."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer.main

from pbos.cli.app import app

TARGET = Path(__file__).parents[1] / "docs" / "cli.md"


def commands(group: Any, path: str = "") -> Iterator[str]:
    """Yield the names of all commands, such as "eval similarity"; the program itself is ""."""
    yield path
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, f"{path} {name}".strip())


def content(names: Iterable[str] | None = None) -> str:
    """Return the page: the help of every command, 100 columns wide and without colors."""
    plain = {"COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1", "TERM": "dumb"}
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"} | plain
    parts = [f"# The command line\n\nGenerated from `--help` by `make docs`. {maker()}\n"]
    for command in commands(typer.main.get_command(app)) if names is None else names:
        arguments = [sys.executable, "-c", "import pbos.cli; pbos.cli.main()", *command.split(), "--help"]
        shown = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout
        lines = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        parts.append(f"## {f'pbos {command}'.strip()}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def maker() -> str:
    """Return a comment with the version of typer, which determines the layout."""
    return f"<!-- typer {importlib.metadata.version('typer')} -->"


if __name__ == "__main__":
    TARGET.write_text(content(), encoding="utf-8")
