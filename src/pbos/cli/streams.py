"""Standard streams: closed ones, and encodings that lack characters."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
from typing import NoReturn

from pbos.errors import InputError


def prepare_streams() -> None:
    """Replace streams that are closed, and write what an encoding lacks in ASCII."""
    replace_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("pbos", in_ascii)
        sys.stdout.reconfigure(encoding=encoding_of(sys.stdout), errors="pbos")


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
