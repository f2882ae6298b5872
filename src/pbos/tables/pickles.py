"""Vectors in pickles: gensim's .kv and .model, and Polyglot's. Nothing that a pickle names is imported or called.

A list of allowed names would not be safe: NumPy's own functions, called by a pickle, trust what it says about a dtype
and can be made to treat bytes as addresses of objects. Nor is Python's fast unpickler: nine bytes make it reserve 4 GB
for a memo, and tuples in tuples overflow its stack. So this one is built on the slower one, which is in Python.
"""

from __future__ import annotations

import io
import os
import pickle
import re
import zipfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, ClassVar

import numpy as np
import numpy.typing as npt

from pbos.errors import FormatError
from pbos.files.cache import on_disk
from pbos.files.paths import PathLike, check_expansion, damage_in, open_bytes
from pbos.words.arrays import FloatMatrix

READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
WORDS = ("index_to_key", "index2word", "index2entity")  # the names in gensim 4, and before
VECTORS = ("vectors", "syn0")
POLYGLOT_MARKS = ("<UNK>", "<S>", "</S>", "<PAD>")


def read_gensim(path: PathLike, stream: BinaryIO, _: int | None = None) -> tuple[list[str], npt.NDArray[Any]]:
    """Read KeyedVectors, or a model whose `wv` they are."""
    saved, name = attributes(read_pickle(path, stream)), os.fspath(path)
    if wv := attributes(saved.get("wv")):
        saved, name = wv, f"{name}.wv"
    words = next((saved[key] for key in WORDS if saved.get(key)), None)
    with damage_in(path, "its vectors cannot be read"):
        side_files = saved.get("__numpys") or ()  # gensim saves large arrays in files of their own
        key = next((key for key in VECTORS if saved.get(key) is not None or key in side_files), None)
        if not isinstance(words, list) or key is None:
            raise FormatError(
                f"{path}: this is a pickle without word vectors that pbos can read; "
                "if gensim saved it, load it there and write the vectors with save_word2vec_format"
            )
        if not all(isinstance(word, str) for word in words):
            raise FormatError(f"{path}: not all keys of these vectors are words (str), as in a set of documents")
        if key not in side_files:
            return words, as_array(saved[key])
        try:
            if not os.fspath(path).endswith((".gz", ".bz2")):
                return words, np.lib.format.open_memmap(on_disk(f"{name}.{key}.npy"), mode="r")
            with zipfile.ZipFile(on_disk(f"{name}.{key}.npz")) as archive:
                return words, read_member(f"{name}.{key}.npz", archive, "val")
        except FileNotFoundError as error:
            raise FormatError(f"{path}: its vectors are in {error.filename}, which is missing; copy it too") from None


def read_member(path: PathLike, archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read an array of an archive. Unlike NumPy, this takes no more memory than the archive has bytes for."""
    info = archive.getinfo(f"{name}.npy")
    check_expansion(path, info.compress_size, info.file_size)
    content = archive.read(info)
    stream = io.BytesIO(content)
    shape, fortran_order, dtype = READ_HEADER[np.lib.format.read_magic(stream)](stream)
    if dtype.hasobject:
        raise FormatError(f"{path}: the archive contains pickled objects; save the words as np.array(words, dtype=str)")
    return np.frombuffer(content, dtype, offset=stream.tell()).reshape(shape, order="F" if fortran_order else "C")


def attributes(thing: Any) -> dict[str, Any]:
    """Return the attributes of a pickled object."""
    state = getattr(thing, "state", None)
    return state if isinstance(state, dict) else {}


def write_gensim(stream: BinaryIO, words: list[str], matrix: FloatMatrix) -> None:
    """Write KeyedVectors, in one file, with gensim itself."""
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(matrix.shape[1])
    keyed.add_vectors(words, matrix)
    keyed.save(stream)


def read_polyglot(path: Path) -> tuple[list[str], npt.NDArray[Any]]:
    """Read a file of Polyglot, a pickled pair of words and matrix; marks such as <UNK> are left out."""
    with open_bytes(path) as stream:
        content = read_pickle(path, stream)
    with damage_in(path, "not a file of Polyglot vectors"):
        listed, matrix = content
        words, vectors = list(map(as_utf8, listed)), as_array(matrix)
        if len(words) != len(vectors):
            raise FormatError(f"{path}: {len(words)} words but {len(vectors)} vectors; each word needs one")
        kept = [row for row, word in enumerate(words) if word not in POLYGLOT_MARKS]
        return [words[row] for row in kept], vectors[kept]


def as_utf8(word: Any) -> str:
    """Decode a word that Python 2 pickled as UTF-8 bytes, which Python 3 reads as Latin-1; leave others alone."""
    try:
        return str.encode(word, "latin1").decode()
    except UnicodeError:
        return str(word)


# Reading a pickle as data ---------------------------------------------------------------------------------------------


class Inert:
    """Stands for whatever a pickle makes with a class or a function: its name, the arguments and the state."""

    __slots__ = ("arguments", "made_with", "state")

    def __init__(self, made_with: Any, arguments: Any) -> None:
        self.made_with, self.arguments, self.state = made_with, arguments, None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def ignore(self, *_: Any) -> None:
        """Do nothing with the items of a dict, list or set."""

    __setitem__ = append = extend = add = ignore  # what an unpickler calls


class Items(list[Any]):
    """Stands for a tuple. The hash of a tuple would be that of all tuples in it, by recursion without a limit."""

    __slots__ = ()
    __hash__ = object.__hash__  # type: ignore[assignment]


class InertUnpickler(pickle._Unpickler):
    """An unpickler that makes strings, numbers and containers, and an Inert in place of anything else.

    What it makes takes at most some hundred times the memory of the pickle.
    """

    dispatch: ClassVar[dict[int, Any]] = dict(pickle._Unpickler.dispatch)
    append: Any
    read: Any
    stack: list[Any]

    def __init__(self, stream: BinaryIO) -> None:
        end = stream.seek(0, os.SEEK_END)
        stream.seek(0)

        def read(size: int) -> bytes:
            data = stream.read(min(size, end))  # memory is reserved before anything is read
            if len(data) < size:
                raise EOFError(f"it says that {size} bytes follow, but there are {len(data)}")
            return data

        super().__init__(SimpleNamespace(read=read, readline=stream.readline), encoding="latin1")

    def find_class(self, module: str, name: str) -> str:
        """Return the name, whatever the pickle asks for."""
        return f"{module}.{name}"

    def _instantiate(self, made_with: Any, arguments: Any) -> None:
        self.append(Inert(made_with, arguments))

    def load_inert(self) -> None:
        """Make an Inert of a name and arguments."""
        arguments = self.stack.pop()
        self._instantiate(self.stack.pop(), arguments)

    def load_inert_with_keywords(self) -> None:
        """Do the same, without the arguments by keyword."""
        self.stack.pop()
        self.load_inert()

    def load_bytearray8(self) -> None:
        """Read a bytearray; the inherited method makes one of the size that the pickle says before it reads."""
        self.append(bytearray(self.read(int.from_bytes(self.read(8), "little"))))

    def load_items(self, load_tuple: Any) -> None:
        """Make Items of a tuple."""
        load_tuple(self)
        self.stack[-1] = Items(self.stack[-1])

    dispatch[pickle.REDUCE[0]] = dispatch[pickle.NEWOBJ[0]] = load_inert
    dispatch[pickle.NEWOBJ_EX[0]] = load_inert_with_keywords
    dispatch[pickle.BYTEARRAY8[0]] = load_bytearray8
    for opcode in (pickle.TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3):
        dispatch[opcode[0]] = partial(load_items, load_tuple=dispatch[opcode[0]])


def read_pickle(path: PathLike, stream: BinaryIO) -> Any:
    """Read a pickle as data; the path is used in error messages."""
    with damage_in(path, "the pickle is damaged"):
        return InertUnpickler(stream).load()


def as_array(thing: Any) -> npt.NDArray[Any]:
    """Return the array of numbers that an object from a pickle represents."""
    made_with: str = getattr(thing, "made_with", type(thing).__name__)
    if made_with.endswith(".multiarray._reconstruct"):
        _, shape, dtype, fortran, content = thing.state
        order: Any = "F" if fortran else "C"
    elif made_with.endswith(".numeric._frombuffer"):  # pickle protocol 5
        content, dtype, shape, order = thing.arguments
    else:
        raise ValueError(f"expected an array of numbers, found {made_with}")
    (kind, *_), (_, byte_order, *_) = dtype.arguments, dtype.state
    if not re.fullmatch(r"[fiu][1248]", kind) or byte_order not in ("<", ">", "|", "="):
        raise ValueError(f"expected an array of numbers, found one of dtype {kind!r}")
    if getattr(content, "made_with", "") == "_codecs.encode":  # by protocols without bytes
        content, *_ = content.arguments
    data = content if isinstance(content, (bytes, bytearray)) else str.encode(content, "latin1")
    array: npt.NDArray[Any] = np.frombuffer(data, f"{byte_order}{kind}").reshape(shape, order=order)
    return array
