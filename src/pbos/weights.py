"""Words to sparse weights: the matrix A of words = A S, one row a word. Everything about strings ends here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError
from pbos.kernels import compose, lattice
from pbos.subwords import SubwordIndex
from pbos.text import Codes

CHUNK = 4096  # words handed to a thread at a time
Result = TypeVar("Result")


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


def word_weights(
    index: SubwordIndex, codes: Codes, *, uniform: bool, unseen_char_prob: float, threads: int | None = None
) -> Weights:
    """Compute the weights of many words; a subword that occurs twice in a word has two entries.

    Args:
        index: The subwords, their probabilities, and which of them own a vector.
        codes: The words.
        uniform: Every occurrence weighs the same (BoS) instead of its posterior probability (PBoS).
        unseen_char_prob: The probability of a single character never seen.
        threads: How many threads to use; None for one a core.
    """

    def chunk_weights(first: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.float32]]:
        chunk = slice_codes(codes, first, first + CHUNK)
        return lattice.weights_of_words(*index.arrays, unseen_char_prob, uniform, *chunk)  # type: ignore[no-any-return]

    parts = list(in_threads(chunk_weights, range(0, codes.offsets.size - 1, CHUNK), threads))
    lengths = [np.zeros(1, np.int64)] + [np.diff(indptr) for indptr, _, _ in parts]
    return Weights(
        indptr=np.cumsum(np.concatenate(lengths)),
        indices=np.concatenate([np.zeros(0, np.int32)] + [indices for _, indices, _ in parts]),
        data=np.concatenate([np.zeros(0, np.float32)] + [data for _, _, data in parts]),
        n_columns=int(index.rows.max()) + 1,
    )


def slice_codes(codes: Codes, first: int, last: int) -> Codes:
    """Return words first to last (exclusive) of many, without copying their code points."""
    offsets = codes.offsets[first : last + 1]
    return Codes(codes.codes[offsets[0] : offsets[-1]], offsets - offsets[0])


def thread_count(threads: int | None) -> int:
    """Return how many threads to use: as asked, or one for each core this process may run on."""
    if threads is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if threads < 1:
        raise InputError(f"threads must be at least 1, got {threads}")
    return threads


def in_threads(function: Callable[[int], Result], items: Iterable[int], threads: int | None) -> Iterable[Result]:
    """Map a function that releases the GIL over items, in order, on a pool that lives for this call only.

    A pool a call costs some 100 µs and is safe after fork, where the threads of a lasting pool would be gone.
    """
    items = list(items)
    workers = min(thread_count(threads), len(items))
    if workers <= 1:
        return map(function, items)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(function, items))
