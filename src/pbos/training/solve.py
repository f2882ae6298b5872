"""Solvers: sparse weights and target vectors in, subword vectors out. Arrays only, no words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, warn
from pbos.jobs.pools import Threads
from pbos.jobs.threads import blocks, check_interrupt, cut
from pbos.jobs.workspace import Workspace, solve_slices
from pbos.kernels import columns
from pbos.kernels.machine import LINE, LINE_FLOATS
from pbos.kernels.solving import LOOSE, conjugate_gradients, right_side, sgd_epoch
from pbos.kernels.vectors import compose
from pbos.training.run import Run
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
NEGLIGIBLE_WEIGHT = 3e-6  # SGD drops weights below this share of a word's largest; for PBoS, an eighth of all weights
LEAST_WEIGHT = 1e-4  # of a word as a whole; with a smaller one, its vector would be too long
NONE = np.zeros(0, np.float32)
FACTS = ("least", "above", "bound")  # the sum that is minimized; about how far, and at most how far above its minimum
Numbers = npt.NDArray[np.float64]
PROBE = 8  # directions in which the number of iterations is found
SLICE_LINES = 4  # for SGD: cache lines of a vector trained together, at most


@dataclass(frozen=True)
class Solution:
    """Subword vectors, the solver's report as plain data, and how far to trust the vectors."""

    vectors: Any  # (n_subwords, dims): an array, or Slices
    report: dict[str, Any]
    confidence: Confidence | None = None


def sgd(
    weights: Weights, targets: FloatMatrix, run: Run, on_slice: Callable[[int], None] = lambda dims: None
) -> Solution:
    """Minimize the squared error of words = weights @ vectors by plain SGD, one word at a time, from zero.

    Epoch e (from 0) takes the words in a new random order with the rate lr / sqrt(1 + e). The result is the same bit
    for bit however the dimensions are divided, because each is trained on its own. `unit_length` (PBoS-n) couples the
    dimensions, so it runs on one thread. The report has the mean squared error per component of each epoch.

    Weights below 3e-6 of the largest in their row are dropped, which saves an eighth of the work with PBoS. On 100,000
    English words this changed the vectors of these words by at most 3e-5 of their length, and those of 240,673 unseen
    words by at most 7e-4. With `unit_length` all weights are kept.

    `weights` has each column at most once per row. `on_slice` is called with a number of dimensions when they are done.
    """
    recipe, pool, work = run.preset, run.pool, run.work
    dims = targets.shape[1]
    if recipe.unit_length:
        matrix = weights.indptr, weights.indices, weights.data
        n_columns = n_shared = weights.n_columns
        new_column, factor = np.arange(n_columns, dtype=np.int32), np.ones(n_columns, np.float32)
    else:
        kept = weights.indptr, weights.indices, without_negligible(weights)
        rows, ones = np.arange(len(weights)), np.ones(weights.n_columns, np.float32)
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


def without_negligible(weights: Weights) -> npt.NDArray[np.float32]:
    """Return the entries of weights; those below NEGLIGIBLE_WEIGHT times the largest of their row are 0."""
    sizes = np.append(np.abs(weights.data), np.float32(0))  # one more, as the last rows may be empty
    largest = np.maximum.reduceat(sizes, weights.indptr[:-1])  # of an empty row: any
    least = np.repeat(largest * np.float32(NEGLIGIBLE_WEIGHT), np.diff(weights.indptr))
    return np.where(sizes[:-1] < least, np.float32(0), weights.data)


def line_aligned(n_rows: int, dims: int) -> FloatMatrix:
    """Return rows of zeros with at least `dims` columns, each starting at a cache line."""
    width = LINE_FLOATS * -(-dims // LINE_FLOATS)
    zeros = np.zeros(n_rows * width + LINE_FLOATS, np.float32)
    skip = -zeros.ctypes.data % LINE // zeros.itemsize
    return zeros[skip : skip + n_rows * width].reshape(n_rows, width)


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

        Many dimensions all get the same number of iterations, so that it does not matter which of them are solved
        together. It is found in a few random directions.

        A device solves the same equations, but adds in another order and stops slices of dimensions apart, so its
        vectors are as good but not identical.

        The report has lam, the most iterations of any slice of dimensions, and about how far the sum to minimize is
        above its minimum, as a share of it.

        Args:
            targets: The given vectors of all words, (n_words, dims).
            lam: The ridge penalty, above 0.
            run: Has the pool and the device to solve on.
            work: Where to keep the vectors; in memory by default.
            only: The columns whose vectors are returned; None for all.
            own: The column that each word has as a whole (-1 for none), and the share of its own vector that it keeps.
                With s composed of the subwords that it shares with others, and v given, it gets s + share * (v - s).
            tolerance: Stop when the sum to minimize is above its minimum by at most this share of it.
            max_iterations: Stop after this many, with a warning.
            on_slice: Called with a number of dimensions when they are done.
        """
        if not 0 < lam < np.inf:
            raise InputError(f"lam must be above 0, got {lam}")
        run, work, dims = run or Run(), work or Workspace(), targets.shape[1]
        pool, device, moved = run.pool, run.device, None
        per_dim = bytes_per_dim(self._order.size, self._n_shared, self._n_rows.size)
        most, stop = LEAST_SLICE, (max_iterations, tolerance)
        if device is not None:
            pool, moved = Threads(1), self._moved_to(device)
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
        solve_slice = partial(self._solve_slice, targets, lam, stop, about_whole, only, moved)
        memory = per_dim * max(some.stop - some.start for some in slices)
        shape = self._n_rows.size if only is None else only.size, dims
        vectors, parts = solve_slices(work, shape, slices, solve_slice, "solve-dimensions", pool, memory, on_slice)
        least, above, bound = (np.concatenate([part[kind] for part in parts]).sum() for kind in FACTS)
        iterations = max([part["iterations"] for part in parts])
        if stop[1] and bound > 2 * LOOSE * max(tolerance, TOLERANCE) * least:  # otherwise the probe has warned
            warn(
                f"with lam {lam:g}, the solver is perhaps {bound / least:.0%} above the minimum after {iterations} "
                "iterations; use a larger lam"
            )
        excess = float(f"{above / least:.2g}") if least > 0 else 0.0
        report = {"lam": lam, "iterations": iterations, "excess": excess}
        return Solution(vectors, report if device is None else {**report, "device": str(device)})

    def _solve_slice(
        self,
        targets: FloatMatrix,
        lam: float,
        stop: tuple[int, float],
        about_whole: list[npt.NDArray[Any]],
        only: npt.NDArray[np.integer[Any]] | None,
        moved: gpu.DeviceRidge | None,
        some: slice,
    ) -> dict[str, Any]:
        """Return the vectors of some dimensions, the number of iterations, and the FACTS."""
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
            own, own_weights, others, shares = about_whole
            places = np.cumsum(has_private) - 1
            for block in blocks(own.size):  # so that each word becomes words + shares * (given - words)
                some = block.start + np.flatnonzero(own[block] >= 0)
                missing = shares[some, None] * (given[some] - words[some])
                missing -= others[some, None] * private[places[some]]  # of the other private columns
                vectors[own[some]] = missing / own_weights[some, None]
        least, above, bound = [fact.tolist() for fact in facts]
        return {"vectors": vectors, "iterations": int(iterations), "least": least, "above": above, "bound": bound}

    def _solve_shared(
        self, targets: FloatMatrix, lam: float, max_iterations: int, tolerance: float
    ) -> tuple[FloatMatrix, FloatMatrix, int, Numbers, Numbers, Numbers]:
        """Do what `gpu.DeviceRidge.solve` does, on the CPU; the sums are for each dimension, and the bound is exact."""
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

    def _moved_to(self, device: Any) -> gpu.DeviceRidge:
        from pbos.training import gpu  # here, because importing PyTorch is slow

        if self._on_device is None or str(self._on_device.device) != str(device):
            self._on_device = gpu.DeviceRidge(self._rows, self._private, self._n_shared, device)
        return self._on_device


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
    Returns the new matrix, which has the merged columns too if `with_private`, as the last entries of their rows; the
    number of rows of each old column; the weight of each row's private column; and for each old column its new one and
    its factor, scale included.
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
