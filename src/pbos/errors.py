"""Every error and warning pbos raises on purpose: one sentence that says what is wrong, where, and what to do."""

from __future__ import annotations

import operator
import re
import sys
import traceback
import warnings
from numbers import Real
from typing import Any
from urllib.parse import unquote

LONG_WORD, LONG_MESSAGE = 300, 2000  # characters
START_OF_URL = r"\b(?!file:)[a-z][a-z0-9+.-]{1,20}:/"  # a Path drops the second slash
URLS = re.compile(rf"({START_OF_URL}+)((?:(?!{START_OF_URL})[^\s?])*)(\?\S*)?", re.IGNORECASE)
AFTER_URL = ".,:;)]}>'\""
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
BREAKS = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def redacted(text: str) -> str:
    """Return a text without what may be secret in its URLs: names, passwords, and what follows a question mark.

    >>> redacted("https://me:secret@host/model?sig=1a2b: no such file")
    'https://***@host/model?***: no such file'
    """

    def redact(found: re.Match[str]) -> str:
        start, place, query = found.groups("")
        host = place.partition("/")[0]
        if "@" in query and host == place:  # a name or a password with a question mark
            place = "***"
        elif "@" in host or ("@" in place and not re.fullmatch(r"[^:]*|.*:\d*", host)):  # it may have a slash, too
            place = "***@" + place.rpartition("@")[2]
        return start + place + ("?***" + query[len(query.rstrip(AFTER_URL)) :] if query else "")

    return URLS.sub(redact, text)


def repeats_secrets(text: str, url: str) -> bool:
    """Return whether a text has parts of a URL that `redacted` leaves out."""
    parts, shown = (set(re.findall(r"\w{3,}", some)) for some in (f"{url} {unquote(url)}", redacted(url)))
    return any(part in text for part in parts - shown)


def harmless(error: BaseException, url: str = "") -> BaseException | None:
    """Return an error to be the cause of another, or None if its traceback would show secrets of a URL."""
    text = "".join(traceback.format_exception(error))
    return error if redacted(text) == text and not repeats_secrets(text, url) else None


def shortened(message: str) -> str:
    """Return a message without secrets in URLs, the middle of very long words, and of itself.

    >>> len(shortened(f"no such word: {'pneumono' * 25_000}; drop it"))
    175
    """

    def cut(text: str, size: int) -> str:
        return f"{text[: size // 2]}...{text[-size // 2 :]}" if len(text) > size else text

    words = re.sub(rf"\S{{{LONG_WORD},}}", lambda word: cut(word[0], LONG_WORD // 2), redacted(message))
    return cut(words, LONG_MESSAGE)


def for_terminal(text: str) -> str:
    r"""Return a text with escapes, as in JSON, for control characters (not tabs, newlines) and marks of direction.

    >>> print(for_terminal("red: \x1b[31m"))
    red: \u001b[31m
    """
    return CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    r"""Return a text with escapes for tabs and ends of lines.

    >>> print(one_line("two\nlines"))
    two\nlines
    """
    return text.translate(BREAKS)


class PbosError(Exception):
    """Base of all errors that pbos raises on purpose."""

    def __init__(self, message: object = "") -> None:
        super().__init__(shortened(str(message)))


class InputError(PbosError, ValueError):
    """An argument or a word that cannot be used."""


class FormatError(PbosError, ValueError):
    """A file of vectors or counts whose content cannot be read; the message names the place."""


class ModelError(PbosError, ValueError):
    """A model folder that cannot be loaded or saved."""


class ClusterError(PbosError):
    """A cluster cannot be reached or was lost; what is done is kept."""


class MissingExtraError(PbosError, ImportError):
    """An optional dependency is missing; the message names the extra to install."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f'{what} needs an optional dependency; install it with: pip install "pbos[{extra}]"')
        self.given = what, extra

    def __reduce__(self) -> tuple[Any, ...]:  # it comes from a worker
        return MissingExtraError, self.given


class PbosWarning(UserWarning):
    """Something was dropped or replaced, or looks wrong; the result is valid."""


def warn(message: str) -> None:
    """Warn with a PbosWarning that points at the first line of code outside pbos."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "pbos":
        level, frame = level + 1, frame.f_back
    warnings.warn(shortened(message), PbosWarning, stacklevel=level)


def share(name: str, value: Any) -> float:
    """Return an argument as a float, or raise InputError if it is not a number from 0 to 1."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= 1:
        raise InputError(f"{name} must be a number from 0 to 1, got {value!r}")
    return float(value)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return an argument as an int, or raise InputError if it is not a whole number of at least `least`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # who passes True takes it for a switch
    except TypeError:
        number = None
    if number is None:
        raise InputError(f"{name} must be a whole number, got {value!r}")
    if number < least:
        raise InputError(f"{name} must be at least {least}, got {number}")
    return number
