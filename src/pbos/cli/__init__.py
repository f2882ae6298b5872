"""The command line, `pbos`: each command reads, calls the library and writes.

Heavy modules are imported inside commands, so that `pbos --help` answers at once.
"""

import atexit
import gc
import io
import sys


def main() -> None:
    """Run the command line."""
    from pbos.cli.app import app

    atexit.register(gc.freeze)  # saves the garbage collection of all Numba objects at exit, a quarter of a second
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf-8")  # as all files are; on Windows it would be that of the code page
    app()
