"""The sparse matrix A of words = A S: one row per word, one column per subword vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.jobs.workspace import Workspace
from pbos.kernels import columns
from pbos.kernels.vectors import compose
from pbos.words.arrays import FloatMatrix


@dataclass(frozen=True)
class Weights:
    """A sparse matrix in CSR form: rows are words, columns are the rows of the subword vectors."""

    indptr: npt.NDArray[np.int64]  # (n_words + 1,)
    indices: npt.NDArray[np.int32]  # (n_weights,)
    data: npt.NDArray[np.float32]  # (n_weights,)
    n_columns: int

    def __len__(self) -> int:
        return self.indptr.size - 1

    def merged(self) -> Weights:
        """Return the same matrix with each column at most once per row."""
        indptr, indices, data = columns.merge_duplicates(self.indptr, self.indices, self.data, self.n_columns)
        return Weights(indptr, indices, data, self.n_columns)

    def take(self, rows: npt.NDArray[np.int64]) -> Weights:
        """Return some of the rows, in the given order."""
        sizes = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.indptr[rows] - indptr[:-1], sizes) + np.arange(indptr[-1])
        return Weights(indptr, self.indices[entries], self.data[entries], self.n_columns)

    def composed(self, vectors: FloatMatrix) -> FloatMatrix:
        """Return the weighted sums of vectors, one per row: (n_words, dims)."""
        out = np.empty((len(self), vectors.shape[1]), np.float32)
        compose(self.indptr, self.indices, self.data, vectors, out)
        return out

    def renumbered(self, numbers: npt.NDArray[np.integer[Any]]) -> Weights:
        """Give column i the number numbers[i]; columns with the same number become one."""
        n_columns = int(numbers.max(initial=-1)) + 1
        return Weights(self.indptr, numbers[self.indices].astype(np.int32), self.data, n_columns).merged()

    def kept(self, name: str, work: Workspace) -> Weights:
        """Return the same matrix in files, if the workspace has a folder."""
        indptr, indices = work.keep(f"{name}.indptr", self.indptr), work.keep(f"{name}.indices", self.indices)
        return Weights(indptr, indices, work.keep(f"{name}.data", self.data), self.n_columns)

    def forget(self, work: Workspace) -> None:
        """Remove its files."""
        work.forget(self.indptr, self.indices, self.data)


def columns_of_same_words(parts: list[Weights], apart: npt.NDArray[np.int64]) -> npt.NDArray[np.int32]:
    """Number the columns so that those with the same set of words have the same number, in order of appearance.

    The parts are the rows of a matrix; no row has a column twice. The columns `apart`, no two of which have the same
    set of words, get numbers of their own.

    The keys of columns are sums of random marks, one per word. Different ones are equal with a probability of 2**-63.
    """
    n_words, n_columns = sum(map(len, parts)), parts[0].n_columns
    marks = np.random.default_rng(0).integers(1 << 63, size=n_words + 1, dtype=np.int64)
    keys = np.zeros(n_columns, np.int64)
    of_parts = np.split(marks, np.cumsum([len(part) for part in parts]))
    for part, its_marks in zip(parts, of_parts, strict=False):  # the last mark is of no word
        columns.add_column_keys(part.indptr, part.indices, its_marks, keys)
    keys[apart] ^= marks[-1]
    _, places, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.empty(places.size, np.int32)
    order[np.argsort(places)] = np.arange(places.size, dtype=np.int32)
    return order[inverse]


def joined(parts: list[Weights], work: Workspace) -> Weights:
    """Return a matrix from its rows, some at a time; their files are removed."""
    size = sum(part.data.size for part in parts)
    indices, data = work.empty("weights.indices", (size,), np.int32), work.empty("weights.data", (size,), np.float32)
    lengths = np.concatenate([[0], *(np.diff(part.indptr) for part in parts)])
    first = 0
    for part in parts:
        last = first + part.data.size
        indices[first:last], data[first:last] = part.indices, part.data
        first = last
        part.forget(work)
    return Weights(work.keep("weights.indptr", np.cumsum(lengths)), indices, data, parts[0].n_columns)
