"""The command line in a new process, after the kernels have been compiled and cached."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from measure import Row, race


def rows():
    for arguments in (["--help"], ["segment", "higher"]):
        command = [Path(sys.executable).parent / "pbos", *arguments]
        subprocess.run(command, capture_output=True, check=True)
        seconds = race({"ours": lambda c=command: subprocess.run(c, capture_output=True, check=True)})["ours"]
        yield Row(f"`pbos {' '.join(arguments)}`", seconds)
