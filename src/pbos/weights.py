"""Words to sparse weights: the matrix A of words = A S, one row a word. Everything about strings ends here."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pbos.kernels import compose, lattice
from pbos.spelling import Spelling
from pbos.subwords import SubwordIndex
from pbos.text import Codes
from pbos.threads import in_threads

CHUNK = 4096  # words handed to a thread at a time


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
        """Return the same matrix with each column at most once a row."""
        indptr, indices, data = compose.merge_duplicates(self.indptr, self.indices, self.data, self.n_columns)
        return Weights(indptr, indices, data, self.n_columns)

    def take(self, rows: npt.NDArray[np.int64]) -> Weights:
        """Return some of the rows, in the order given."""
        sizes = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(self.indptr[rows] - indptr[:-1], sizes) + np.arange(indptr[-1])
        return Weights(indptr, self.indices[entries], self.data[entries], self.n_columns)

    def renumbered(self, columns: npt.NDArray[np.int64]) -> Weights:
        """Give column i the number columns[i]; columns with the same number become one."""
        n_columns = int(columns.max(initial=-1)) + 1
        return Weights(self.indptr, columns[self.indices].astype(np.int32), self.data, n_columns).merged()

    def columns_of_same_words(self) -> npt.NDArray[np.int64]:
        """Number the columns so that those of the same set of words have the same number, in order of appearance."""
        marks = np.random.default_rng(0).integers(1 << 63, size=len(self), dtype=np.int64)
        keys = compose.column_keys(self.indptr, self.indices, marks, self.n_columns)
        _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        order = np.argsort(np.argsort(first))
        numbers: npt.NDArray[np.int64] = order[inverse]
        return numbers


def word_weights(index: SubwordIndex, codes: Codes, spelling: Spelling, *, threads: int | None = None) -> Weights:
    """Compute the weights of many words; a subword that occurs twice in a word has two entries.

    Args:
        index: The subwords, their probabilities, and which of them own a vector.
        codes: The words, as `Spelling.codes` lays them out.
        spelling: How they are weighed.
        threads: How many threads to use; None for one a core.
    """

    def chunk_weights(first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        chunk = codes.part(first, first + CHUNK)
        return lattice.weights_of_words(index.nodes, *spelling.numbers, *chunk)  # type: ignore[no-any-return]

    parts = list(in_threads(chunk_weights, range(0, codes.offsets.size - 1, CHUNK), threads))
    lengths = [np.zeros(1, np.int64)] + [np.diff(indptr) for indptr, _, _ in parts]
    return Weights(
        indptr=np.cumsum(np.concatenate(lengths)),
        indices=np.concatenate([np.zeros(0, np.int32)] + [indices for _, indices, _ in parts]),
        data=np.concatenate([np.zeros(0, np.float32)] + [data for _, _, data in parts]),
        n_columns=int(index.rows.max()) + 1,
    )
