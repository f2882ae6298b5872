"""Lists, dicts and arrays that nobody can change: what a model keeps and hands out."""

from __future__ import annotations

from typing import Any, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")
Number = TypeVar("Number", bound=np.generic)


class ReadOnlyList(list[Item]):
    """A list that cannot be changed. Unlike a tuple, it equals other lists and can be added to them.

    >>> words = ReadOnlyList(["low", "high"])
    >>> words + ["lower"], sorted(words)
    (['low', 'high', 'lower'], ['high', 'low'])
    >>> words.sort()
    Traceback (most recent call last):
    pbos.errors.InputError: this list cannot be changed, as others use it too; change a copy of it: list(...)
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return list, ([*self],)


class ReadOnlyDict(dict[Key, Value]):
    """A dict that cannot be changed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, ({**self},)


def _refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
    kind = "list" if isinstance(self, list) else "dict"
    raise InputError(f"this {kind} cannot be changed, as others use it too; change a copy of it: {kind}(...)")


CHANGES = "__setitem__ __delitem__ __iadd__ __imul__ __ior__ append clear extend insert pop popitem remove reverse"
for _kind in (ReadOnlyList, ReadOnlyDict):
    for _name in [*CHANGES.split(), "setdefault", "sort", "update"]:
        if hasattr(_kind, _name):
            setattr(_kind, _name, _refuse)


def read_only(data: Any) -> Any:
    """Return a read-only copy of plain data."""
    if isinstance(data, dict):
        return ReadOnlyDict({name: read_only(value) for name, value in data.items()})
    if isinstance(data, list):
        return ReadOnlyList(map(read_only, data))
    return tuple(map(read_only, data)) if isinstance(data, tuple) else data


def locked(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Make an array that nobody else has read-only, with those that it is a view of, and return it."""
    at: Any = array
    while isinstance(at, np.ndarray):
        at.flags.writeable = False
        at = at.base
    return array


def owned(array: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Return an array if it is read-only, and not just a view of one that can be written; or else a read-only copy."""
    at: Any = array
    while isinstance(at, np.ndarray) and not at.flags.writeable:
        at = at.base
    return locked(np.array(array)) if isinstance(at, np.ndarray) else array
