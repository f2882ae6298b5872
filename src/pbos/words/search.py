"""The search for neighbors: what may be asked for becomes unit vectors, and these are compared with those of words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.jobs.threads import BLOCK, blocks
from pbos.words.arrays import FloatMatrix, has_masked, unit_rows
from pbos.words.nearest import ROUNDING, nearest, products, rounded
from pbos.words.text import BYTES, as_words

QUERIES, COSINES = 64, 1 << 24  # compared with all words at a time; cosines that this may take, 4 bytes each
Neighbors = list[tuple[str, float]]
Embed = Callable[[list[str]], FloatMatrix]


class SearchedWords:
    """Words to search, and their unit vectors, rounded.

    Args:
        words: The words.
        read_as: The same, as the model reads them.
        dims: The number of dimensions.
        embed: Returns the vectors of words.
    """

    def __init__(self, words: list[str], read_as: list[str], dims: int, embed: Embed) -> None:
        self.words, self.read_as, self.embed = words, read_as, embed
        self.repeated = len(words) - len(set(read_as))
        self.rounded = np.empty((len(words), dims), np.int16)
        for rows in blocks(len(words), 4 * BLOCK):
            self.rounded[rows] = rounded(unit_rows(embed(words[rows])))

    def units(self, at: npt.NDArray[np.intp]) -> FloatMatrix:
        """Return the exact unit vectors of the words at some positions."""
        return unit_rows(self.embed([self.words[row] for row in at.tolist()]))

    def nearest(self, queries: FloatMatrix, left_out: list[set[str]], n: int) -> list[Neighbors]:
        """Return the n words nearest to each unit vector, without those that are left out of its answer."""
        found: list[Neighbors] = []
        step = max(1, min(QUERIES, COSINES // max(1, len(self.words))))
        for first in range(0, len(queries), step):
            asking = queries[first : first + step]
            roughs = products(rounded(asking), self.rounded)
            for query, rough, out in zip(asking, roughs, left_out[first : first + step], strict=True):
                best = nearest(rough, query, self.units, n + len(out) + self.repeated) if query.any() else []
                found.append([(self.words[at], cosine) for at, cosine in best if self.read_as[at] not in out][:n])
        return found


class Question(NamedTuple):
    """What to search for.

    Attributes:
        queries: The unit vectors of what is asked about.
        words: For each of them, the words that it is made of.
        is_one: Whether there is one answer, and not a list of them.
    """

    queries: FloatMatrix
    words: list[list[str]]
    is_one: bool


def asked_for(words: Any, positive: Any, negative: Any, dims: int, embed: Embed) -> Question:
    """Return what the arguments of `Model.neighbors` ask for."""
    combined = positive is not None or negative is not None
    if combined == (words is not None):
        raise InputError("neighbors needs words or vectors, or positive and negative ones, not both")
    if not combined:
        items = as_items(words)
        rows = vectors_of_items(items, dims, embed)
        return Question(unit_vectors(rows), [words_in([item]) for item in items], is_item(words))
    added, subtracted = as_items(positive), as_items(negative)
    total, largest = np.zeros(dims), 0.0
    for sign, items in ((1, added), (-1, subtracted)):
        rows = vectors_of_items(items, dims, embed)
        are_words = np.array([isinstance(item, str) for item in items], np.bool_)
        rows[are_words] = unit_rows(rows[are_words])
        total += sign * rows.sum(axis=0, dtype=np.float64)
        largest = max(largest, float(np.abs(rows).max(initial=0)))
    if np.abs(total).max() <= ROUNDING * largest:  # what is left of a - a is nothing
        total[:] = 0
    return Question(unit_vectors(total[None]), [words_in(added + subtracted)], True)


def unit_vectors(rows: npt.NDArray[Any]) -> FloatMatrix:
    """Return vectors of any scale scaled to length 1: first by a power of two, so that `unit_rows` loses no digits."""
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0))
    return unit_rows(np.ldexp(rows, -exponents[:, None]).astype(np.float32))


def vectors_of_items(items: list[Any], dims: int, embed: Embed) -> FloatMatrix:
    """Return the vectors of words, and given vectors as they are; InputError if something else is among them."""
    vectors = embed(as_words(["-" if is_vector(item) else item for item in items]))
    for at, item in enumerate(items):
        if is_vector(item):
            vectors[at] = checked_vector(item, dims)
    return vectors


def checked_vector(item: Any, dims: int) -> npt.NDArray[np.float32]:
    """Return a given vector as an array, or raise InputError if it cannot be compared with vectors of this size."""
    expected = f"expected a word or a vector of {dims} numbers"
    try:
        vector = np.asarray(item, np.float32)
    except (TypeError, ValueError):
        raise InputError(f"{expected}, got {type(item).__name__}") from None
    if vector.shape != (dims,):
        raise InputError(f"{expected}, got shape {vector.shape}")
    if has_masked(item):
        raise InputError("a vector contains masked numbers, so it has no neighbors; fill them in or leave it out")
    if not np.isfinite(vector).all():
        raise InputError("a vector contains NaN or infinity, so it has no neighbors; correct it or leave it out")
    return vector


def words_in(items: list[Any]) -> list[str]:
    """Return the words among words and vectors."""
    return [item for item in items if isinstance(item, str)]


def is_item(item: Any) -> bool:
    """Return whether something is one word, or one vector as an array."""
    kind = getattr(getattr(item, "dtype", None), "kind", "none")
    return isinstance(item, str) or (getattr(item, "ndim", 0) == 1 and kind in "fiu")


def is_vector(item: Any) -> bool:
    """Return whether one of many items is meant as a vector and not as a word."""
    return getattr(item, "ndim", 0) == 1 or isinstance(item, (list, tuple))


def as_items(items: Any) -> list[Any]:
    """Return one word or vector, or many, as a list."""
    if items is None or is_item(items):
        return [] if items is None else [items]
    if getattr(items, "ndim", 1) == 2:  # a matrix or a pandas DataFrame
        return list(np.asanyarray(items))  # which keeps a mask
    if hasattr(items, "to_pylist"):  # Arrow
        return list(items.to_pylist())
    if isinstance(items, BYTES) or getattr(items, "ndim", 1) == 0 or not isinstance(items, Iterable):
        raise InputError(f"expected words or vectors, got {type(items).__name__}")
    return list(items)
