"""Every error and warning pbos raises on purpose.

Exception
└── PbosError                one sentence: what is wrong, where, what to do
    ├── InputError           an argument or a word that cannot be used     (also ValueError)
    ├── FormatError          a vector or count file with bad content       (also ValueError)
    ├── ModelError           a model folder that cannot be loaded or saved (also ValueError)
    ├── ClusterError         a cluster that cannot be reached, or was lost
    └── MissingExtraError    an optional dependency that is not installed  (also ImportError)

UserWarning
└── PbosWarning              something was dropped or replaced, or looks wrong
"""

from __future__ import annotations

import operator
import re
import sys
import warnings
from numbers import Real
from typing import Any

LONG_WORD, LONG_MESSAGE = 300, 2000  # characters
CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
BREAKS = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})


def shortened(message: str) -> str:
    """Return a message without the middle of very long words, and of itself.

    >>> shortened(f"no such word: {'pneumono' * 25_000}; drop it")[:60]
    'no such word: pneumonopneumonopneumonopneumonopneumonopneumo'
    >>> len(shortened(f"no such word: {'pneumono' * 25_000}; drop it"))
    175
    """

    def cut(text: str, size: int) -> str:
        return f"{text[: size // 2]}...{text[-size // 2 :]}" if len(text) > size else text

    words = re.sub(rf"\S{{{LONG_WORD},}}", lambda word: cut(word[0], LONG_WORD // 2), message)
    return cut(words, LONG_MESSAGE)


def for_terminal(text: str) -> str:
    r"""Return a text with escapes, as in JSON, for what a terminal would obey, except for tabs and newlines.

    These are control characters, and those that turn the direction of the text around them.

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
    if not isinstance(value, Real) or not 0 <= float(value) <= 1:
        raise InputError(f"{name} must be a number from 0 to 1, got {value!r}")
    return float(value)


def whole_number(name: str, value: Any, least: int) -> int:
    """Return an argument as an int, or raise InputError if it is not a whole number of at least `least`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, got {value!r}") from None
    if number < least:
        raise InputError(f"{name} must be at least {least}, got {number}")
    return number
