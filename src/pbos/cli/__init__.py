"""The command line, `pbos`: each command reads, calls the library and writes.

Heavy modules are imported inside commands, so that `pbos --help` answers at once.
"""

import atexit
import codecs
import gc
import io
import json
import os
import signal
import sys
import threading
from typing import Any, NoReturn

from pbos.errors import InputError


class Interrupted(SystemExit):
    """Ctrl-C: ends the program after cleaning up; libraries that handle KeyboardInterrupt themselves let it pass."""


def main() -> None:
    """Run the command line."""
    before, hook = signal.signal(signal.SIGINT, interrupt), sys.unraisablehook
    sys.unraisablehook = lambda ignored: interrupt_later() if ignored.exc_type is Interrupted else hook(ignored)
    try:
        replace_closed_streams()
        from pbos.cli.app import guarded, start

        atexit.register(gc.freeze)  # saves the garbage collection of all Numba objects at exit, a quarter of a second
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_DFL)  # the work is done: no complaints from here on
        if isinstance(sys.stdout, io.TextIOWrapper):
            codecs.register_error("pbos", in_ascii)
            sys.stdout.reconfigure(encoding=encoding_of(sys.stdout), errors="pbos")
        guarded(start)()
    except Interrupted:
        sys.stderr.write("pbos: interrupted; nothing was left half-written\n")
        raise
    finally:
        signal.signal(signal.SIGINT, before)
        sys.unraisablehook = hook


def interrupt(*_: Any) -> NoReturn:
    """End the program; another Ctrl-C does so at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    raise Interrupted(130)


def interrupt_later() -> None:
    """Interrupt once more: Python ignores what is raised in a callback from C, such as those of Numba's compiler."""
    signal.signal(signal.SIGINT, interrupt)
    timer = threading.Timer(0.01, os.kill, (os.getpid(), signal.SIGINT))
    timer.daemon = True
    timer.start()


def replace_closed_streams() -> None:
    """Put something in the place of streams that are closed (`<&-`, `>&-`), so that no file gets their numbers."""
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stdin, sys.stdout = sys.stdin or Closed("stdin"), sys.stdout or Closed("stdout")
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: PTH123


def encoding_of(stdout: io.TextIOWrapper) -> str:
    """Return the encoding to write: what a terminal shows, what PYTHONIOENCODING asks for, or else UTF-8, as in files.

    Python itself would write the code page to files on Windows.
    """
    return stdout.encoding if stdout.isatty() or os.environ.get("PYTHONIOENCODING") else "utf-8"


def in_ascii(error: UnicodeError) -> tuple[str, int]:
    r"""Return what to write for characters that an encoding lacks: # in bars, and otherwise escapes, as in JSON.

    >>> codecs.register_error("pbos", in_ascii)
    >>> "█▏ Ж😀".encode("ascii", "pbos")
    b'## \\u0416\\ud83d\\ude00'
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    lacking = error.object[error.start : error.end]
    shown = ("#" if "▀" <= character <= "▟" else json.dumps(character)[1:-1] for character in lacking)
    return "".join(shown), error.end


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
