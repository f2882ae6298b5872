"""The sparse matrix A of words = A S: one row per word, one column per subword vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix
from pbos.kernels import columns
from pbos.kernels.compose import compose


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

    def scaled(self, factors: npt.NDArray[np.float32]) -> Weights:
        """Return the matrix with row i multiplied by factors[i]."""
        data = self.data * np.repeat(factors, np.diff(self.indptr))
        return Weights(self.indptr, self.indices, data, self.n_columns)

    def renumbered(self, numbers: npt.NDArray[np.int64]) -> Weights:
        """Give column i the number numbers[i]; columns with the same number become one."""
        n_columns = int(numbers.max(initial=-1)) + 1
        return Weights(self.indptr, numbers[self.indices].astype(np.int32), self.data, n_columns).merged()

    def columns_of_same_words(self, apart: npt.NDArray[np.int64] | None = None) -> npt.NDArray[np.int64]:
        """Number the columns so that those with the same set of words have the same number, in order of appearance.

        The columns in `apart`, no two of which have the same set of words, get numbers of their own.
        """
        marks = np.random.default_rng(0).integers(1 << 63, size=len(self) + 1, dtype=np.int64)
        keys = columns.column_keys(self.indptr, self.indices, marks, self.n_columns)
        if apart is not None:
            keys[apart] ^= marks[-1]
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))
        numbers: npt.NDArray[np.int64] = order[inverse]
        return numbers
