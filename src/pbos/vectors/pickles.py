"""Pickles read as data: nothing that a pickle names is imported, looked up or called.

A list of allowed names would not be safe: NumPy's own functions, called by a pickle, trust what it says about a dtype
and can be made to treat bytes as addresses of objects.
"""

from __future__ import annotations

import pickle
import re
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError
from pbos.files import PathLike


class Inert:
    """Stands for whatever a pickle makes with a class or a function; keeps the arguments and the state."""

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

    def ignore(self, *_: Any) -> None:
        """Do nothing with the items of a dict, list or set."""

    __setitem__ = append = extend = add = ignore  # what an unpickler calls


class InertUnpickler(pickle.Unpickler):
    """An unpickler that makes strings, numbers and containers, and an Inert in place of anything else."""

    def find_class(self, module: str, name: str) -> type[Inert]:
        """Return a class that does nothing, whatever the pickle asks for."""
        return type("Inert", (Inert,), {"made_with": f"{module}.{name}"})


def read_pickle(path: PathLike, stream: BinaryIO) -> Any:
    """Read a pickle as data; the path is used in error messages."""
    try:
        return InertUnpickler(stream, encoding="latin1").load()
    except OSError:
        raise
    except Exception as error:  # damaged bytes can raise nearly anything
        raise FormatError(f"{path}: the pickle is damaged ({error}); copy or download it again") from None


def as_array(thing: Any) -> npt.NDArray[Any]:
    """Return the array of numbers that an object from a pickle represents, or raise ValueError."""
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
    """Return the dtype of plain numbers that a pickled one represents."""
    (kind, *_), (_, byte_order, *_) = thing.arguments, thing.state
    if not re.fullmatch(r"[fiu][1248]", kind) or byte_order not in ("<", ">", "|", "="):
        raise ValueError(f"expected an array of numbers, found one of dtype {kind!r}")
    dtype: np.dtype[Any] = np.dtype(f"{byte_order}{kind}")
    return dtype


def as_bytes(thing: Any) -> bytes | bytearray:
    """Return bytes that may have been pickled as text: by Python 2, or by protocols without bytes."""
    if getattr(thing, "made_with", "") == "_codecs.encode":
        thing, *_ = thing.arguments
    if isinstance(thing, (bytes, bytearray)):
        return thing
    return str.encode(thing, "latin1")
