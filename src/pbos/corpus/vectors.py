"""Word vectors from co-occurrences: the singular vectors of their pointwise mutual information.

Levy, Goldberg and Dagan (2015) found that a singular value decomposition (SVD) of positive pointwise mutual information
(PPMI) rivals skip-gram. Rare words are noisy, so here a word's row counts n / (n + 100) if it occurs n times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix, unit_rows
from pbos.corpus.cooccurrences import Cooccurrences, Rows
from pbos.errors import InputError
from pbos.kernels import pairs
from pbos.kernels.compose import compose
from pbos.kernels.machine import LINE_FLOATS
from pbos.kernels.ridge import normal_product
from pbos.solvers import line_aligned
from pbos.threads import in_threads, thread_count

CONTEXT_POWER = 0.75  # of the context counts, so that rare contexts weigh less
NOISY_COUNT = 100  # a word this frequent counts half
SPARE_DIMS = 12  # dimensions computed beyond those wanted
STEPS = 3  # of the Krylov space; see `singular_vectors`
ENTRY = 8  # bytes of an entry of the matrix


class Information:
    """The matrix of positive pointwise mutual information: a row for each word, a column for each context word.

    It is computed from the co-occurrences in blocks of rows whenever it is needed, and kept if it is small.
    """

    def __init__(
        self,
        pairs_: Cooccurrences,
        words: npt.NDArray[np.bool_],
        contexts: npt.NDArray[np.bool_],
        threads: int | None,
        memory: int,
    ) -> None:
        self.pairs, self.threads = pairs_, thread_count(threads)
        self.n_contexts = int(contexts.sum())
        self._contexts = np.where(contexts, np.cumsum(contexts) - 1, -1).astype(np.int32)
        row_sums, column_sums = np.zeros(len(pairs_)), np.zeros(self.n_contexts)
        for some in pairs_.ranges():
            pairs.add_sums(pairs_.rows(some), self._contexts, row_sums[some], column_sums)
        column_sums **= CONTEXT_POWER
        with np.errstate(divide="ignore"):
            self._row_logs = np.where(words, np.log(row_sums), np.inf)  # infinity: without entries
            self._column_logs = np.log(column_sums / column_sums.sum())
        self._kept: list[tuple[slice, Rows]] | None = None
        if pairs_.data.size * ENTRY <= memory // 4:
            self._kept = list(self._compute())

    def _compute(self) -> Iterator[tuple[slice, Rows]]:
        def one(some: slice) -> tuple[slice, Rows]:
            rows = pairs.mutual_information(
                self.pairs.rows(some), self._contexts, self._row_logs[some], self._column_logs
            )
            return some, rows

        ranges = list(self.pairs.ranges())
        for first in range(0, len(ranges), self.threads):
            yield from in_threads(one, ranges[first : first + self.threads], self.threads)

    def blocks(self) -> Iterator[tuple[slice, Rows]]:
        """Yield blocks of rows: which they are, and their entries."""
        return self._compute() if self._kept is None else iter(self._kept)

    def normal_product(self, shares: npt.NDArray[np.float32], vectors: FloatMatrix) -> FloatMatrix:
        """Return A' D A vectors, where A is this matrix and D the diagonal matrix of `shares`, one per row."""
        starts = range(0, vectors.shape[1], LINE_FLOATS)
        slices = [line_aligned(self.n_contexts, 2 * LINE_FLOATS).reshape(-1, 2, LINE_FLOATS) for _ in starts]
        for start, both in zip(starts, slices, strict=True):
            some = vectors[:, start : start + LINE_FLOATS]
            both[:, 0, : some.shape[1]] = some
        curvature = np.zeros((len(slices), LINE_FLOATS))  # not needed
        for rows, matrix in self.blocks():
            multiply = partial(normal_product, matrix, shares[rows])
            in_threads(lambda at: multiply(slices[at], curvature[at]), range(len(slices)), self.threads)  # noqa: B023
        return np.concatenate([both[:, 1] for both in slices], axis=1)[:, : vectors.shape[1]]

    def product(self, vectors: FloatMatrix) -> FloatMatrix:
        """Return A vectors."""
        out = np.empty((len(self.pairs), vectors.shape[1]), np.float32)
        for rows, matrix in self.blocks():
            compose(*matrix, vectors, out[rows])
        return out


def singular_vectors(
    information: Information,
    shares: npt.NDArray[np.float32],
    dims: int,
    seed: int,
    on_step: Callable[[int], None],
) -> FloatMatrix:
    """Return the first right singular vectors of D^(1/2) A, each divided by its singular value: (n_contexts, dims).

    A block Krylov method: the best approximations within the space that Q, B Q, B² Q, ... span, for random Q and
    B = A' D A. It needs fewer products than iterating B alone (Musco and Musco 2015).
    """
    width = min(dims + SPARE_DIMS, information.n_contexts)
    steps = min(STEPS, information.n_contexts // width - 1)
    random = np.random.default_rng(seed).standard_normal((information.n_contexts, width))
    space = np.linalg.qr(random.astype(np.float32))[0]
    small = np.zeros((width * (steps + 1),) * 2)  # B within the space
    for step in range(steps + 1):
        moved = information.normal_product(shares, space[:, -width:])
        on_step(1)
        some = slice(step * width, (step + 1) * width)
        small[: some.stop, some] = space.T @ moved
        if step < steps:
            space = np.concatenate([space, orthonormal(moved, space)], axis=1)
    values, vectors = np.linalg.eigh(small, "U")
    best = slice(None, -dims - 1, -1)
    roots = np.sqrt(np.maximum(values[best], values[-1] * 1e-12))
    found: FloatMatrix = space @ (vectors[:, best] / roots).astype(np.float32)
    return found


def orthonormal(vectors: FloatMatrix, space: FloatMatrix) -> FloatMatrix:
    """Return an orthonormal basis of the columns of a matrix, at right angles to those of another."""
    for _ in range(2):  # twice is enough against rounding errors
        vectors = vectors - space @ (space.T @ vectors)
    basis: FloatMatrix = np.linalg.qr(vectors)[0]
    return basis


def most_frequent(counts: npt.NDArray[Any], least: int, most: int) -> npt.NDArray[np.bool_]:
    """Return which words occur at least `least` times, at most `most` of them; of equally frequent ones the first."""
    order = np.argsort(-counts, kind="stable")[:most]
    chosen = np.zeros(counts.size, np.bool_)
    chosen[order] = counts[order] >= least
    return chosen


def word_vectors(
    pairs_: Cooccurrences,
    dims: int,
    *,
    min_count: int,
    max_words: int,
    min_context_count: int,
    max_contexts: int,
    seed: int = 0,
    threads: int | None = None,
    memory: int = 4 << 30,
    on_step: Callable[[int], None] = lambda steps: None,
) -> tuple[list[str], FloatMatrix, npt.NDArray[np.int64]]:
    """Return words, most frequent first, their vectors of length 1, and their counts."""
    chosen = most_frequent(pairs_.counts, min_count, max_words)
    contexts = most_frequent(pairs_.counts, min_context_count, max_contexts)
    if contexts.sum() < dims:
        raise InputError(
            f"{dims} dimensions need as many words that occur {min_context_count} times, but the text has "
            f"{contexts.sum()}; use more text or fewer dimensions"
        )
    information = Information(pairs_, chosen, contexts, threads, memory)
    shares = (pairs_.counts / (pairs_.counts + NOISY_COUNT)).astype(np.float32)
    vectors = information.product(singular_vectors(information, shares, dims, seed, on_step))
    order = np.argsort(-pairs_.counts, kind="stable")
    order = order[chosen[order] & vectors[order].any(axis=1)]  # a word that is alone in its lines has no vector
    return [pairs_.words[at] for at in order], unit_rows(vectors[order]), pairs_.counts[order]
