"""Word vectors from co-occurrences: the singular vectors of their pointwise mutual information.

Levy, Goldberg and Dagan (2015) found that a singular value decomposition (SVD) of positive pointwise mutual information
(PPMI) rivals skip-gram. Here contexts are of three kinds: words near a word, just before it and just after it; the last
two tell what part of speech a word is. Rare words are noisy, so a word's row counts n / (n + 100) if it occurs n times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.corpus.cooccurrences import Cooccurrences, Rows, row_ranges
from pbos.errors import InputError
from pbos.jobs.progress import Advance
from pbos.jobs.progress import progress as progress_bar
from pbos.jobs.threads import blocks, in_threads, one_blas_thread, thread_count
from pbos.kernels.machine import line_aligned
from pbos.kernels.solving import normal_product
from pbos.kernels.text import mutual_information
from pbos.kernels.vectors import compose
from pbos.words.arrays import FloatMatrix, unit_rows

MIN_CONTEXT_COUNT = 5  # how often a word has to occur to be a context
MAX_CONTEXTS = 50_000
CONTEXT_POWER = 0.75  # of the context counts, so that rare contexts weigh less
CONTEXT_SHARES = np.array([1.0, 0.5, 0.5], np.float32)  # of contexts near, before and after a word
NOISY_COUNT = 100  # a word this frequent counts half
WIDTH = 32  # vectors multiplied at a time
LANES = 8  # sums kept apart, so that as many threads can work; a fixed number, so that threads do not change the result
LEAST_LENGTH = 1e-4  # of a vector, as a share of the longest; shorter ones are rounding errors
ENTRY = 8  # bytes of an entry of the matrix


class Information:
    """The matrix of positive pointwise mutual information: a row per chosen word, three columns per context word.

    It is computed from the co-occurrences in blocks of rows whenever it is needed, and kept if it is small.
    """

    def __init__(
        self,
        counted: Cooccurrences,
        words: npt.NDArray[np.bool_],
        contexts: npt.NDArray[np.bool_],
        threads: int,
        memory: int,
    ) -> None:
        n_contexts = int(contexts.sum())
        self.shape = int(words.sum()), 3 * n_contexts
        self.threads = threads
        self._counted, self._words = counted, words
        self._contexts = np.where(contexts, np.cumsum(contexts) - 1, -1).astype(np.int32)
        self._ranges = row_ranges(counted.indptr)
        row_sums, column_sums = np.zeros((3, len(counted))), np.zeros((3, n_contexts))
        for rows in self._ranges:
            indptr, indices, data = counted.rows(rows)
            kinds, numbers = np.divmod(indices, len(counted))
            at, places = np.repeat(np.arange(rows.start, rows.stop), np.diff(indptr)), self._contexts[numbers]
            known, counts = places >= 0, data.astype(np.float64)
            np.add.at(row_sums.reshape(-1), (kinds * len(counted) + at)[known], counts[known])
            np.add.at(column_sums.reshape(-1), (kinds * n_contexts + places)[known], counts[known])
        if not column_sums.any():
            raise InputError("no two words of the text are next to each other; put whole sentences on lines")
        column_sums **= CONTEXT_POWER
        with np.errstate(divide="ignore"):
            self._row_logs = np.where(words, np.log(row_sums), np.inf)  # infinity: without entries
            self._column_logs = np.log(column_sums / column_sums.sum(axis=1, keepdims=True))
        self._kept: list[Rows] = []
        if counted.data.size * ENTRY <= memory // 4:
            self._kept = in_threads(self._block, range(len(self._ranges)), threads)

    def _block(self, at: int) -> Rows:
        """Return a block of rows, for a range of all words; words that were not chosen have no entries."""
        if self._kept:
            return self._kept[at]
        rows = self._ranges[at]
        logs = self._row_logs[:, rows], self._column_logs
        block: Rows = mutual_information(self._counted.rows(rows), self._contexts, *logs, CONTEXT_SHARES)
        return block

    def normal_product(self, shares: npt.NDArray[np.float32], vectors: FloatMatrix) -> FloatMatrix:
        """Return A' D A vectors, where A is this matrix and D the diagonal matrix of `shares`, one per row."""
        width = vectors.shape[1]
        lanes = [line_aligned(self.shape[1], 2 * WIDTH).reshape(-1, 2, WIDTH) for _ in range(LANES)]

        def multiply(lane: int) -> None:
            lanes[lane][:, 0, :width] = vectors
            for at in range(lane, len(self._ranges), LANES):
                normal_product(self._block(at), shares[self._ranges[at]], lanes[lane], np.zeros(WIDTH))

        in_threads(multiply, range(LANES), self.threads)
        total = lanes[0][:, 1, :width].copy()
        for lane in lanes[1:]:
            total += lane[:, 1, :width]
        return total

    def product(self, vectors: FloatMatrix) -> FloatMatrix:
        """Return A vectors."""

        def multiply(at: int) -> FloatMatrix:
            chosen = self._words[self._ranges[at]]
            products = np.empty((chosen.size, vectors.shape[1]), np.float32)
            compose(*self._block(at), vectors, products)
            return products[chosen]

        return np.concatenate(in_threads(multiply, range(len(self._ranges)), self.threads))


def singular_vectors(
    information: Information, shares: npt.NDArray[np.float32], dims: int, seed: int, advance: Advance
) -> FloatMatrix:
    """Return the first right singular vectors of D^(1/2) A, each divided by its singular value: (n_columns, dims).

    A block Krylov method: the best approximations within the space that Q, B Q, B² Q, ... span, for random Q and
    B = A' D A. With narrow blocks it needs far fewer products than iterating B alone (Musco and Musco 2015).
    """
    n = information.shape[1]
    size = WIDTH * n_steps(dims)
    if size >= n:  # the space is that of all contexts
        space, size = np.eye(n, dtype=np.float32), n
    else:
        space = np.empty((n, size), np.float32)
        space[:, :WIDTH] = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, WIDTH)).astype(np.float32))[0]
    inside = np.zeros((size, size))  # B within the space
    for block in blocks(size, WIDTH):
        moved = information.normal_product(shares, space[:, block])
        known = space[:, : block.stop]
        inside[: block.stop, block] = known.T @ moved
        if block.stop < size < n:
            new = space[:, block.stop : block.stop + WIDTH]
            new[:] = moved
            for _ in range(2):  # once more, against rounding errors
                new[:] = np.linalg.qr(new - known @ (known.T @ new))[0]
        advance(1)
    values, vectors = np.linalg.eigh(inside, "U")
    best = slice(None, -dims - 1, -1)
    roots = np.sqrt(np.maximum(values[best], values[-1] * 1e-12))
    found: FloatMatrix = space @ (vectors[:, best] / roots).astype(np.float32)
    return found


def n_steps(dims: int) -> int:
    """Return how many blocks of `WIDTH` vectors the space gets: enough for the last singular vectors to converge."""
    return max(18, -(-11 * dims // (2 * WIDTH)))


def most_frequent(counts: npt.NDArray[Any], least: int, most: int, dims: int) -> npt.NDArray[np.bool_]:
    """Return which words occur at least `least` times, at most `most` of them; of equally frequent ones the first."""
    order = np.argsort(-counts, kind="stable")[:most]
    chosen = np.zeros(counts.size, np.bool_)
    chosen[order] = counts[order] >= least
    if chosen.sum() < dims:
        raise InputError(
            f"{dims} dimensions need as many words that occur {least} times, but there are only {chosen.sum()}; "
            "use more text, fewer dimensions, or a larger max_words"
        )
    return chosen


def word_vectors(
    counted: Cooccurrences,
    dims: int,
    *,
    min_count: int,
    max_words: int,
    seed: int = 0,
    threads: int | None = None,
    memory: int = 4 << 30,
    progress: bool | None = False,
) -> tuple[list[str], FloatMatrix, npt.NDArray[np.int64]]:
    """Return words, most frequent first, their vectors of length 1, and their counts."""
    words = most_frequent(counted.counts, min_count, max_words, dims)
    contexts = most_frequent(counted.counts, MIN_CONTEXT_COUNT, MAX_CONTEXTS, dims)
    shares = (counted.counts / (counted.counts + NOISY_COUNT)).astype(np.float32)
    with one_blas_thread(), progress_bar("factoring", n_steps(dims), progress) as advance:
        information = Information(counted, words, contexts, thread_count(threads), memory)
        vectors = information.product(singular_vectors(information, shares, dims, seed, advance))
    counts, lengths = counted.counts[words], np.linalg.norm(vectors, axis=1) * np.sqrt(shares[words])
    order = np.argsort(-counts, kind="stable")
    order = order[lengths[order] > LEAST_LENGTH * lengths.max()]  # the others have no part in these dimensions
    return counted.words_at(np.flatnonzero(words)[order]), unit_rows(vectors[order]), counts[order]
