"""Pickles read as data: nothing that a pickle names is ever imported, looked up or called.

To allow just a few names would not be enough: NumPy's own functions, called by a pickle, believe what it says about a
dtype, and can be made to take bytes for the addresses of objects.
"""

from __future__ import annotations

import pickle
import re
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError

DAMAGE = (
    pickle.UnpicklingError,
    AttributeError,
    EOFError,
    LookupError,
    MemoryError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)  # what Python's unpickler raises on bytes that are no pickle


class Inert:
    """Stands for anything a pickle makes with a class or a function; keeps what it would be made from, does nothing."""

    made_with = ""  # as the pickle names it: module.name
    arguments: tuple[Any, ...]
    state: Any = None

    def __new__(cls, *arguments: Any, **_: Any) -> Inert:
        """Keep the arguments."""
        self = super().__new__(cls)
        self.arguments = arguments
        return self

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        """Let entries go, as of a defaultdict."""

    def append(self, item: Any) -> None:
        """Let an item go, as of a deque; an unpickler calls this, and the next two."""

    def extend(self, items: Any) -> None:
        """Let items go."""

    def add(self, item: Any) -> None:
        """Let an item go, as of a set."""


class InertUnpickler(pickle.Unpickler):
    """An unpickler that makes strings, numbers and containers, and something inert in place of all else."""

    def find_class(self, module: str, name: str) -> type[Inert]:
        """Return a class that does nothing, whatever the pickle asks for."""
        return type("Inert", (Inert,), {"made_with": f"{module}.{name}"})


def read_pickle(path: Any, stream: BinaryIO) -> Any:
    """Read a pickle as data; the path is for messages."""
    try:
        return InertUnpickler(stream, encoding="latin1").load()
    except DAMAGE as error:
        raise FormatError(f"{path}: the pickle is damaged ({error}); copy or fetch it again") from None


def as_array(thing: Any) -> npt.NDArray[Any]:
    """Make the array of numbers that something read from a pickle stands for, or raise a ValueError."""
    made_with: str = getattr(thing, "made_with", type(thing).__name__)
    try:
        if made_with.endswith(".multiarray._reconstruct"):
            _, shape, dtype, fortran, content = thing.state
            order: Any = "F" if fortran else "C"
        elif made_with.endswith(".numeric._frombuffer"):  # pickle protocol 5
            content, dtype, shape, order = thing.arguments
        else:
            raise ValueError(f"expected an array of numbers, found {made_with}")
        numbers = as_dtype(dtype)
        array: npt.NDArray[Any] = np.frombuffer(as_bytes(content), numbers).reshape(shape, order=order)
    except (AttributeError, IndexError, TypeError) as error:
        raise ValueError(f"an array in it is damaged ({error})") from None
    return array


def as_dtype(thing: Any) -> np.dtype[Any]:
    """Make the dtype of plain numbers that a pickled one stands for."""
    (kind, *_), (_, byte_order, *_) = thing.arguments, thing.state
    if not re.fullmatch(r"[fiu][1248]", kind) or byte_order not in ("<", ">", "|", "="):
        raise ValueError(f"expected an array of numbers, found one of dtype {kind!r}")
    dtype: np.dtype[Any] = np.dtype(f"{byte_order}{kind}")
    return dtype


def as_bytes(thing: Any) -> bytes | bytearray:
    """Return bytes that may have been pickled as text: by Python 2, or in protocols that had no bytes."""
    if getattr(thing, "made_with", "") == "_codecs.encode":
        thing, *_ = thing.arguments
    if isinstance(thing, (bytes, bytearray)):
        return thing
    return str.encode(thing, "latin1")
