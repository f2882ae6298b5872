"""The search for neighbors: what may be asked for becomes unit vectors, and these are compared with those of words.

A fast search among rounded vectors finds the few words that may be nearest; these are compared exactly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.jobs.threads import BLOCK, blocks
from pbos.kernels.vectors import products_of_few
from pbos.words.arrays import FloatMatrix, has_masked, unit_rows
from pbos.words.text import BYTES, as_words

QUERIES, COSINES = 64, 1 << 24  # compared with all words at a time; cosines that this may take, 4 bytes each
ROUNDING = 1e-5  # more than a sum of unit vectors is off
FEW = 16  # queries; for more, NumPy's product of matrices is faster
STEPS = 32767  # what 1 is in unit vectors rounded to int16; a product of two is at most its square, which fits int32
Neighbors = list[tuple[str, float]]
Embed = Callable[[list[str]], FloatMatrix]


class SearchedWords:
    """Words to search, how the model reads them, and their unit vectors, rounded: half the memory is half the time."""

    def __init__(self, words: list[str], read_as: list[str], dims: int, embed: Embed) -> None:
        self.words, self.read_as, self.embed = words, read_as, embed
        self.repeated = len(words) - len(set(read_as))
        self.rounded = np.empty((len(words), dims), np.int16)
        for rows in blocks(len(words), 4 * BLOCK):
            self.rounded[rows] = rounded(unit_rows(embed(words[rows])))

    def nearest(self, queries: FloatMatrix, left_out: list[set[str]], n: int) -> list[Neighbors]:
        """Return the n words nearest to each unit vector, without those that are left out of its answer."""

        def units(at: npt.NDArray[np.intp]) -> FloatMatrix:
            return unit_rows(self.embed([self.words[row] for row in at.tolist()]))

        found: list[Neighbors] = []
        step = max(1, min(QUERIES, COSINES // max(1, len(self.words))))
        for first in range(0, len(queries), step):
            asking = queries[first : first + step]
            roughs = products(rounded(asking), self.rounded)
            for query, rough, out in zip(asking, roughs, left_out[first : first + step], strict=True):
                best = nearest(rough, query, units, n + len(out) + self.repeated) if query.any() else []
                found.append([(self.words[at], cosine) for at, cosine in best if self.read_as[at] not in out][:n])
        return found


def rounded(units: FloatMatrix) -> npt.NDArray[np.int16]:
    """Return unit vectors in whole steps."""
    return np.asarray(np.rint(units * np.float32(STEPS)), np.int16)


def products(queries: npt.NDArray[np.int16], rows: npt.NDArray[np.int16]) -> npt.NDArray[Any]:
    """Return the products of rounded vectors, (n_queries, n_rows)."""
    if len(queries) < FEW:
        return np.asarray(products_of_few(queries, rows))
    many, wide = np.empty((len(queries), len(rows)), np.float32), queries.astype(np.float32)
    for block in blocks(len(rows)):
        np.matmul(wide, rows[block].astype(np.float32).T, out=many[:, block])
    return many


def nearest(
    rough: npt.NDArray[Any], query: FloatMatrix, units: Callable[[npt.NDArray[np.intp]], FloatMatrix], n: int
) -> list[tuple[int, float]]:
    """Return the n unit vectors that are nearest to a query, as (position, cosine); of equal ones the first.

    Those whose rough products with the query may be largest are compared with the exact vectors, `units` of positions.
    """
    off = STEPS * math.sqrt(query.size) + ROUNDING * STEPS**2  # at most: each number of each vector by half a step
    best = at_least(rough, n, math.ceil(2 * off))
    cosines = (units(best).astype(np.float64) * query).sum(axis=1).astype(np.float32)
    order = np.argsort(-cosines, kind="stable")[:n]
    return list(zip(best[order].tolist(), cosines[order].tolist(), strict=True))


def at_least(values: npt.NDArray[Any], n: int, slack: float = 0) -> npt.NDArray[np.intp]:
    """Return the positions of the values that are at least the nth largest minus slack, in order; else all."""
    if not 0 < n < values.size:
        return np.arange(values.size if n > 0 else 0)
    few = values[:: max(1, values.size // max(4096, 8 * n))]  # the nth largest of these is no larger
    best: npt.NDArray[np.intp] = np.flatnonzero(values >= np.partition(few, -n)[-n] - slack)
    best = best[values[best] >= np.partition(values[best], -n)[-n] - slack]
    return best


def asked_for(
    words: Any, positive: Any, negative: Any, dims: int, embed: Embed
) -> tuple[FloatMatrix, list[list[str]], bool]:
    """Return the unit vectors that `Model.neighbors` is asked about, the words in each, and whether it is just one."""
    combined = positive is not None or negative is not None
    if combined == (words is not None):
        raise InputError("neighbors needs words or vectors, or positive and negative ones, not both")
    if not combined:
        items = as_items(words)
        rows = vectors_of_items(items, dims, embed)
        return unit_vectors(rows), [[item] if isinstance(item, str) else [] for item in items], is_item(words)
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
    return unit_vectors(total[None]), [[item for item in added + subtracted if isinstance(item, str)]], True


def unit_vectors(rows: npt.NDArray[Any]) -> FloatMatrix:
    """Return vectors of any scale scaled to length 1: first by a power of two, so that `unit_rows` loses no digits."""
    _, exponents = np.frexp(np.abs(rows).max(axis=1, initial=0))
    return unit_rows(np.ldexp(rows, -exponents[:, None]).astype(np.float32))


def vectors_of_items(items: list[Any], dims: int, embed: Embed) -> FloatMatrix:
    """Return the vectors of words, and given vectors as they are; InputError if something else is among them."""
    are_vectors = [getattr(item, "ndim", 0) == 1 or isinstance(item, (list, tuple)) for item in items]
    vectors = embed(as_words(["-" if is_vector else item for item, is_vector in zip(items, are_vectors, strict=True)]))
    expected = f"expected a word or a vector of {dims} numbers"
    for at in np.flatnonzero(are_vectors).tolist():
        try:
            vector = np.asarray(items[at], np.float32)
        except (TypeError, ValueError):
            raise InputError(f"{expected}, got {type(items[at]).__name__}") from None
        if vector.shape != (dims,):
            raise InputError(f"{expected}, got shape {vector.shape}")
        if has_masked(items[at]):
            raise InputError("a vector contains masked numbers, so it has no neighbors; fill them in or leave it out")
        if not np.isfinite(vector).all():
            raise InputError("a vector contains NaN or infinity, so it has no neighbors; correct it or leave it out")
        vectors[at] = vector
    return vectors


def is_item(item: Any) -> bool:
    """Return whether something is one word, or one vector as an array."""
    kind = getattr(getattr(item, "dtype", None), "kind", "none")
    return isinstance(item, str) or (getattr(item, "ndim", 0) == 1 and kind in "fiu")


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
