"""Solvers: sparse weights and target vectors in, subword vectors out. Arrays only, no words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, warn
from pbos.jobs.pools import Threads
from pbos.jobs.threads import check_interrupt, cut
from pbos.jobs.workspace import Workspace, solve_slices
from pbos.kernels import columns
from pbos.kernels.machine import LINE, LINE_FLOATS, line_aligned
from pbos.kernels.solving import LOOSE, conjugate_gradients, right_side, sgd_epoch
from pbos.kernels.vectors import compose
from pbos.training.system import HeldOut, Run
from pbos.words.arrays import FloatMatrix, projected, projection
from pbos.words.confidence import Confidence
from pbos.words.weights import Weights

if TYPE_CHECKING:
    from pbos.training import gpu

SLICE = 64  # dimensions solved together, at most: a few cache lines per vector
FEW = 32  # so few dimensions are solved until all of them are done
LEAST_SLICE = FEW // 2
TOLERANCE = 0.001  # how far above its minimum the sum that ridge regression minimizes may be, as a share of it
MOST_ITERATIONS = 1000
LEAST_WEIGHT = 1e-4  # of a word as a whole; with a smaller one, its vector would be too long
NONE = np.zeros(0, np.float32)
Numbers = npt.NDArray[np.float64]
PROBE = 8  # directions in which the number of iterations is found
SLICE_LINES = 4  # for SGD: cache lines of a vector trained together, at most


@dataclass(frozen=True)
class Solution:
    """Subword vectors, the solver's report as plain data, and how far to trust the vectors."""

    vectors: Any  # (n_subwords, dims): an array, or Slices
    report: dict[str, Any]
    confidence: Confidence | None = None
    held_out: HeldOut | None = None  # words of a text


def sgd(
    weights: Weights, targets: FloatMatrix, run: Run, on_slice: Callable[[int], None] = lambda dims: None
) -> Solution:
    """Minimize the squared error of words = weights @ vectors by plain SGD, one word at a time, from zero.

    Epoch e (from 0) takes the words in a new random order with the rate lr / sqrt(1 + e). The result is the same bit
    for bit however the dimensions are divided, because each is trained on its own. `unit_length` (PBoS-n) couples the
    dimensions, so it runs on one thread; otherwise, weights below 3e-6 of the largest in their row are dropped, which
    saves an eighth of the work and changes vectors of unseen words by less than 1e-3 of their length.

    `weights` has each column at most once per row. `on_slice` is called with a number of dimensions when they are done.
    The report has the mean squared error per component of each epoch.
    """
    recipe, pool, work = run.preset, run.pool, run.work
    dims, ones = targets.shape[1], np.ones(weights.n_columns, np.float32)
    if recipe.unit_length:
        matrix, n_columns = (weights.indptr, weights.indices, weights.data), weights.n_columns
        n_shared, new_column, factor = n_columns, np.arange(n_columns, dtype=np.int32), ones
    else:
        kept = weights.indptr, weights.indices, columns.without_negligible(weights.indptr, weights.data)
        rows = np.arange(len(weights))
        matrix, n_rows, private, new_column, factor = separated(kept, rows, NONE, ones, work, with_private=True)
        del kept  # half of the memory for weights
        n_shared = int((n_rows != 1).sum())
        n_columns = n_shared + int(np.count_nonzero(private))
    per_line = LINE * (n_columns + weights.n_columns + 2 * len(weights))  # bytes for a cache line of each vector
    lines, most = -(-dims // LINE_FLOATS), max(1, min(pool.memory // per_line, SLICE_LINES))
    n_slices = min(lines, pool.size * -(-lines // (pool.size * most)))  # the same number for each part of the pool
    parts_of_lines = cut(lines, 1 if recipe.unit_length else n_slices)
    slices = [slice(LINE_FLOATS * part.start, min(LINE_FLOATS * part.stop, dims)) for part in parts_of_lines]
    arrays: list[npt.NDArray[Any]] = [*matrix, new_column, factor]
    indptr, indices, data, new_column, factor = (work.keep(f"sgd.{at}", array) for at, array in enumerate(arrays))
    epochs, lr, seed, unit_length = recipe.epochs, recipe.lr, run.seed, recipe.unit_length  # workers cannot get `run`

    def train_slice(some: slice) -> dict[str, Any]:
        size = some.stop - some.start
        given, trained = line_aligned(len(weights), size), line_aligned(n_columns, size)
        given[:, :size] = targets[:, some]
        random = np.random.default_rng(seed)
        losses = []
        for epoch in range(epochs):
            check_interrupt()
            order = random.permutation(len(weights))
            rate = np.float32(lr / np.sqrt(1 + epoch))
            loss = sgd_epoch(indptr, indices, data, given, trained, order, rate, unit_length)
            losses.append(loss[:size].tolist())
        vectors = np.empty((weights.n_columns, size), np.float32)
        columns.split_columns(trained[:n_shared], trained[n_shared:], new_column, factor, vectors)
        return {"vectors": vectors, "losses": losses}

    shape = weights.n_columns, dims
    memory = per_line * max([part.stop - part.start for part in parts_of_lines])
    vectors, parts = solve_slices(work, shape, slices, train_slice, "train-dimensions", pool, memory, on_slice)
    losses = np.concatenate([np.reshape(part["losses"], (epochs, -1)) for part in parts], axis=1)
    means = (losses.sum(axis=1) / max(targets.size, 1)).tolist()
    if not np.isfinite(means[-1]):
        raise InputError(f"training diverged (loss {means[-1]}); use a smaller lr than {lr}")
    return Solution(vectors, {"losses": [float(f"{loss:.6g}") for loss in means]})


class Ridge:
    """Ridge regression: the vectors that minimize |weights @ vectors - targets|² + lam * sum of penalty * |vector|².

    Words may count more or less: then the error of each is multiplied by its reliability.

    A private column, which only one word has, is eliminated: whatever error e the other columns leave, a private column
    with the weight b removes b² / (lam + b²) of it, and the rest costs the word lam / (lam + b²) of e². So it is enough
    to solve for the shared columns with these shares as weights of the words. That system is much smaller and converges
    for small lam too. It is solved by conjugate gradients with a Jacobi preconditioner.
    """

    def __init__(
        self,
        weights: Weights,
        penalty: npt.NDArray[np.floating[Any]] | None = None,
        reliability: npt.NDArray[np.floating[Any]] | None = None,
        rows: npt.NDArray[np.int64] | None = None,
        work: Workspace | None = None,
    ) -> None:
        """Prepare the equations, which are kept in `work`.

        `weights` has each column at most once per row. The penalty of each column and the reliability of each word are
        above 0, or None for 1. `rows` says which words to use; None for all.
        """
        work = work or Workspace()
        rows = np.arange(len(weights)) if rows is None else rows
        order = rows[order_of_words(weights, rows)]
        # Rows and targets are multiplied by the roots of the reliabilities.
        roots = NONE if reliability is None else np.sqrt(reliability[order]).astype(np.float32)
        scale = np.ones(weights.n_columns) if penalty is None else 1 / np.sqrt(penalty)
        self._weights = weights
        self._order, self._roots = work.keep("rows.order", order), work.keep("rows.roots", roots)
        self._rows, self._n_rows, self._private, self._new_column, self._factor = separated(
            (weights.indptr, weights.indices, weights.data), order, roots, scale.astype(np.float32), work
        )
        self._n_shared = int((self._n_rows != 1).sum())
        self._on_device: gpu.DeviceRidge | None = None  # the equations on the last device used

    def solve(
        self,
        targets: FloatMatrix,
        lam: float,
        run: Run | None = None,
        *,
        work: Workspace | None = None,
        only: npt.NDArray[np.integer[Any]] | None = None,
        own: tuple[npt.NDArray[np.int64], float] | None = None,
        tolerance: float = TOLERANCE,
        max_iterations: int = MOST_ITERATIONS,
        on_slice: Callable[[int], None] = lambda dims: None,
    ) -> Solution:
        """Return the vectors; the same bit for bit on any pool, as each dimension is solved on its own.

        Many dimensions all get the number of iterations that a few random directions need, so that it does not matter
        which of them are solved together. A device adds in another order and stops slices of dimensions apart, so its
        vectors are as good but not identical. The report has lam, the most iterations of any slice of dimensions, and
        about how far the sum to minimize is above its minimum, as a share of it.

        `targets` are the given vectors of all words, and `only` are the columns whose vectors are returned, in `work`.
        `own` has the column that each word has as a whole (-1 for none), and the share of its own vector that it keeps:
        with s composed of the subwords that it shares with others, and v given, it gets s + share * (v - s). The solver
        stops when the sum to minimize is above its minimum by at most `tolerance` times itself, or, with a warning,
        after `max_iterations`. `on_slice` is called with a number of dimensions when they are done.
        """
        run, work, dims = run or Run(), work or Workspace(), targets.shape[1]
        pool, device, moved = run.pool, run.device, None
        per_dim = bytes_per_dim(self._order.size, self._n_shared, self._n_rows.size)
        most, stop = LEAST_SLICE, (max_iterations, tolerance)
        if device is not None:
            from pbos.training import gpu  # here, because importing PyTorch is slow

            if self._on_device is None or str(self._on_device.device) != str(device):
                self._on_device = gpu.DeviceRidge(self._rows, self._private, self._n_shared, device)
            pool, moved = Threads(1), self._on_device
        elif dims > FEW:
            probe = work.keep("probe", projected(targets, projection(dims, PROBE, 0)))
            few = self.solve(probe, lam, run, tolerance=tolerance, max_iterations=max_iterations)
            most, stop = max(LEAST_SLICE, min(SLICE, pool.memory // per_dim)), (few.report["iterations"], 0.0)
        n_slices = 2 * -(-dims // (2 * most))  # an even number, like most numbers of cores
        slices = cut(dims, n_slices) if moved is None else moved.slices(dims)
        about_whole: list[npt.NDArray[Any]] = []  # what `own_columns` finds about each word, and its share
        if own is not None:
            matrix, (whole, share) = (self._weights.indptr, self._weights.indices, self._weights.data), own
            *found, shared = columns.own_columns(*matrix, self._order, whole, self._n_rows, LEAST_WEIGHT, self._factor)
            shares = np.where(shared, np.float32(share), np.float32(1))  # a word that shares nothing keeps its vector
            about_whole = [work.keep(f"own.{at}", array) for at, array in enumerate((*found, shares))]

        def solve_slice(some: slice) -> dict[str, Any]:
            given = np.ascontiguousarray(targets[:, some], np.float32)[self._order]
            part = given * self._roots[:, None] if self._roots.size else given
            solve = self._solve_shared if moved is None else moved.solve
            shared, words, iterations, *facts = solve(part, lam, *stop)
            has_private = self._private > 0
            private = (part - words)[has_private]
            private *= (self._private / (lam + self._private**2))[has_private, None]
            new_column, factor = self._new_column, self._factor
            if only is not None:
                new_column, factor = new_column[only], factor[only]
            vectors = np.empty((factor.size, part.shape[1]), np.float32)
            columns.split_columns(shared, private, new_column, factor, vectors)
            if about_whole:
                if self._roots.size:
                    words /= self._roots[:, None]
                columns.set_own_vectors(*about_whole, np.cumsum(has_private) - 1, given, words, private, vectors)
            return {"vectors": vectors, "iterations": int(iterations), "facts": np.array(facts).tolist()}

        memory = per_dim * max(some.stop - some.start for some in slices)
        shape = self._n_rows.size if only is None else only.size, dims
        vectors, parts = solve_slices(work, shape, slices, solve_slice, "solve-dimensions", pool, memory, on_slice)
        least, above, bound = np.concatenate([part["facts"] for part in parts], axis=1).sum(axis=1)
        iterations = max([part["iterations"] for part in parts])
        if stop[1] and bound > 2 * LOOSE * max(tolerance, TOLERANCE) * least:  # otherwise the probe has warned
            above_it = f"perhaps {bound / least:.0%} above the minimum after {iterations} iterations"
            warn(f"with lam {lam:g}, the solver is {above_it}; use a larger lam")
        excess = float(f"{above / least:.2g}") if least > 0 else 0.0
        report = {"lam": lam, "iterations": iterations, "excess": excess}
        return Solution(vectors, report | ({} if device is None else {"device": str(device)}))

    def _solve_shared(
        self, targets: FloatMatrix, lam: float, max_iterations: int, tolerance: float
    ) -> tuple[FloatMatrix, FloatMatrix, int, Numbers, Numbers, Numbers]:
        """Return the vectors of the shared columns, the words that these add up to, and the number of iterations.

        Then for each dimension the sum that is minimized, about how far it is above its minimum, and how far at most.
        """
        shares = (lam / (lam + self._private**2)).astype(np.float32)
        size = self._n_shared, targets.shape[1]
        shared, residual = np.empty(size, np.float32), np.empty(size, np.float32)
        pairs = line_aligned(self._n_shared, 2 * targets.shape[1])
        pairs = pairs.reshape(self._n_shared, 2, pairs.shape[1] // 2)
        iterations, above = conjugate_gradients(
            self._rows, shares, np.float32(lam), targets, max_iterations, tolerance, shared, residual, pairs
        )
        del pairs
        words = np.empty_like(targets)
        compose(*self._rows, shared, words)
        least = np.empty(targets.shape[1])
        # Rounding adds up over many iterations, so the residual is computed again.
        right_side(self._rows, shares, np.float32(lam), targets - words, residual, np.empty(self._n_shared), least)
        residual -= np.float32(lam) * shared
        least += lam * np.einsum("ij,ij->j", shared, shared, dtype=np.float64)
        bound = np.einsum("ij,ij->j", residual, residual, dtype=np.float64) / lam
        return shared, words, iterations, least, above, bound


def separated(
    matrix: tuple[npt.NDArray[Any], ...],
    rows: npt.NDArray[np.int64],
    factors: npt.NDArray[np.float32],
    scale: npt.NDArray[np.float32],
    work: Workspace,
    with_private: bool = False,
) -> tuple[Any, ...]:
    """Merge the private columns of each row into one, see `kernels.columns.private_columns`.

    Takes some rows of a CSR matrix, multiplied by `factors` (if there are any), and its columns multiplied by `scale`.
    Returns the new matrix, whose rows end with the merged columns if `with_private`; the number of rows of each old
    column; the weight of each row's private column; and for each old column its new one and its factor, with the scale.
    """
    n_rows = columns.count_rows(*matrix, rows, scale.size)
    arguments = *matrix, rows, factors, scale, n_rows
    indptr, private, new_column, factor = columns.private_columns(*arguments)
    if with_private:
        indptr[1:] += np.cumsum(private > 0)
    indices = work.empty("rows.indices", (int(indptr[-1]),), np.int32)
    data = work.empty("rows.data", indices.shape, np.float32)
    columns.write_columns(*arguments, new_column, private if with_private else NONE, indices, data)
    others = {"n_rows": n_rows, "private": private, "new_column": new_column, "factor": factor * scale}
    kept = [work.keep(f"rows.{name}", array) for name, array in others.items()]  # so that no job is sent with them
    return (work.keep("rows.indptr", indptr), indices, data), *kept


def bytes_per_dim(n_words: int, n_shared: int, n_vectors: int) -> int:
    """Return the memory for each dimension that is solved: of conjugate gradients, or of completing the vectors."""
    return 4 * max(4 * n_shared + 3 * n_words, n_shared + n_vectors + 5 * n_words)


def order_of_words(weights: Weights, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return an order in which words that share their first columns are adjacent, so that those stay in the cache."""
    starts, sizes = weights.indptr[rows], np.diff(weights.indptr)[rows]
    keys = np.full((4, rows.size), -1)
    for k, key in enumerate(keys):
        key[sizes > k] = weights.indices[starts[sizes > k] + k]
    return np.lexsort(keys[::-1])
