"""The command line, `pbos`: each command reads, calls the library and writes.

Heavy modules are imported inside commands, so that `pbos --help` answers at once.
"""

import atexit
import gc
import io
import os
import signal
import sys
from typing import Any, NoReturn

from pbos.errors import InputError


class Interrupted(SystemExit):
    """Ctrl-C: ends the program after cleaning up; libraries that handle KeyboardInterrupt themselves let it pass."""


def main() -> None:
    """Run the command line."""
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        replace_closed_streams()
        from pbos.cli.app import app, guarded

        atexit.register(gc.freeze)  # saves the garbage collection of all Numba objects at exit, a quarter of a second
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)  # the work is done: no complaints from here on
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(encoding="utf-8")  # as all files are; on Windows it would be that of the code page
        guarded(app)()
    except Interrupted:
        sys.stderr.write("pbos: interrupted; nothing was left half-written\n")
        raise
    finally:
        signal.signal(signal.SIGINT, before)


def interrupt(*_: Any) -> NoReturn:
    """End the program; another Ctrl-C does so at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise Interrupted(130)


def replace_closed_streams() -> None:
    """Put something in the place of streams that are closed (`<&-`, `>&-`), so that no file gets their numbers."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdin, sys.stdout = sys.stdin or Closed("stdin"), sys.stdout or Closed("stdout")
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123


class Closed(io.TextIOBase):
    """A stream that was closed from the start; to use it is an error."""

    def __init__(self, name: str) -> None:
        self.error = InputError(f"{name} is closed; connect it to a file, a pipe or a terminal")

    @property
    def buffer(self) -> NoReturn:
        """Raise an error."""
        raise self.error

    def write(self, text: str) -> NoReturn:
        """Raise an error."""
        raise self.error
