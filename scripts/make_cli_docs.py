"""Write docs/cli.md from `pbos --help`; a test checks that it is up to date."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

COMMANDS = (
    *("", "segment", "explain", "embed", "neighbors", "similarity", "train", "info", "compress", "convert", "eval"),
    *("eval data", "eval similarity", "eval multilingual", "eval segmentation", "eval affix"),
    *("eval tagging", "eval heldout", "eval speed", "eval reproduce"),
)
TARGET = Path(__file__).parents[1] / "docs" / "cli.md"


def content() -> str:
    """Return the page: the help of every command."""
    environment = {**os.environ, "COLUMNS": "100", "TERMINAL_WIDTH": "100", "NO_COLOR": "1"}
    parts = ["# The command line\n\nMade from `--help` by `make docs`.\n"]
    for command in COMMANDS:
        arguments = [sys.executable, "-c", "import pbos.cli; pbos.cli.main()", *command.split(), "--help"]
        shown = subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout
        shown = shown.replace("Usage: -c", "Usage: pbos")
        lines = "\n".join(line.rstrip() for line in shown.strip().splitlines())
        parts.append(f"## {f'pbos {command}'.strip()}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TARGET.write_text(content(), encoding="utf-8")
