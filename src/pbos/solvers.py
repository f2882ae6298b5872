"""Solvers: sparse weights and target vectors in, subword vectors out. Arrays only, no words."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix
from pbos.errors import InputError
from pbos.kernels import columns
from pbos.kernels.compose import compose
from pbos.kernels.machine import LINE, LINE_FLOATS
from pbos.kernels.ridge import conjugate_gradients
from pbos.kernels.sgd import sgd_epoch
from pbos.threads import in_threads, thread_count
from pbos.weights import Weights

if TYPE_CHECKING:
    from pbos import gpu

SLICE = 64  # dimensions solved together, at most: a few cache lines per vector
SLICE_BYTES = 3 << 30  # fewer dimensions if they would need more memory than this
SLICE_LINES = 4  # for SGD: cache lines of a vector trained together, at most


@dataclass(frozen=True)
class Solution:
    """Subword vectors, and the solver's report as plain data."""

    vectors: FloatMatrix  # (n_subwords, dims)
    report: dict[str, Any]


def sgd(
    weights: Weights,
    targets: FloatMatrix,
    *,
    epochs: int,
    lr: float,
    seed: int,
    unit_length: bool = False,
    threads: int | None = None,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> Solution:
    """Minimize the squared error of words = weights @ vectors by plain SGD, one word at a time, from zero.

    Epoch e (from 0) takes the words in a new random order with the rate lr / sqrt(1 + e). The result is the same bit
    for bit for any number of threads, because each trains its own dimensions. `unit_length` (PBoS-n) couples the
    dimensions, so it runs on one thread. The report has the mean squared error per component of each epoch.

    Weights below 3e-6 of the largest in their row are dropped, which saves an eighth of the work with PBoS. On 100,000
    English words this changed the vectors of these words by at most 3e-5 of their length, and those of 240,673 unseen
    words by at most 7e-4. With `unit_length` all weights are kept.

    Args:
        weights: The weights of the training words, each column at most once per row.
        targets: Their given vectors, (n_words, dims).
        epochs: The number of passes over the words.
        lr: The learning rate of the first epoch.
        seed: Determines the order of the words.
        unit_length: Scale subword vectors to length 1 before summing them.
        threads: The number of threads; None for one per core.
        on_epoch: Called with the epoch (from 1) and its loss.
    """
    if unit_length:
        threads, n_columns = 1, weights.n_columns
        matrix = (weights.indptr, weights.indices, weights.data)
    else:
        *matrix, n_columns, _, new_column, factor = columns.merge_private_columns(
            *columns.without_negligible(weights.indptr, weights.indices, weights.data), weights.n_columns
        )
    dims = targets.shape[1]
    slices = [slice(0, dims)] if unit_length else slices_of(dims, thread_count(threads))
    target_slices = [line_aligned(len(weights), part.stop - part.start) for part in slices]
    vector_slices = [line_aligned(n_columns, part.stop - part.start) for part in slices]
    for part, some in zip(slices, target_slices, strict=True):
        some[:, : part.stop - part.start] = targets[:, part]

    random = np.random.default_rng(seed)
    losses: list[float] = []
    for epoch in range(epochs):
        order = random.permutation(len(weights))
        rate = np.float32(lr / np.sqrt(1 + epoch))

        def train_slice(i: int, order: npt.NDArray[np.int64] = order, rate: np.float32 = rate) -> Any:
            return sgd_epoch(*matrix, target_slices[i], vector_slices[i], order, rate, unit_length)

        per_dim = np.concatenate(in_threads(train_slice, range(len(slices)), threads))
        losses.append(float(per_dim.sum() / max(targets.size, 1)))
        on_epoch(epoch + 1, losses[-1])
    if not np.isfinite(losses[-1]):
        raise InputError(f"training diverged (loss {losses[-1]}); use a smaller lr than {lr}")

    report = {"losses": [float(f"{loss:.6g}") for loss in losses]}
    if unit_length:
        return Solution(np.ascontiguousarray(vector_slices[0][:, :dims]), report)
    vectors = np.empty((weights.n_columns, dims), np.float32)

    def finish(i: int) -> None:
        columns.split_columns(vector_slices[i], new_column, factor, vectors[:, slices[i]])

    in_threads(finish, range(len(slices)), threads)
    return Solution(vectors, report)


def slices_of(dims: int, threads: int) -> list[slice]:
    """Cut the dimensions into slices of whole cache lines, the same number for each thread."""
    lines = -(-dims // LINE_FLOATS)
    n_slices = min(lines, threads * -(-lines // (threads * SLICE_LINES)))
    bounds = LINE_FLOATS * np.linspace(0, lines, n_slices + 1).astype(int)
    return [slice(int(start), min(int(end), dims)) for start, end in itertools.pairwise(bounds)]


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
    ) -> None:
        """Prepare the equations.

        Args:
            weights: The weights of the training words, each column at most once per row.
            penalty: The penalty of each column's vector, above 0; None for 1.
            reliability: How much each word counts, above 0; None for 1.
        """
        self._order = order_of_words(weights)
        weights = weights.take(self._order)
        self._roots = None  # of the reliabilities: rows and targets are multiplied by them
        if reliability is not None:
            self._roots = np.sqrt(reliability[self._order]).astype(np.float32)[:, None]
            weights = weights.scaled(self._roots[:, 0])
        self._scale = np.ones(weights.n_columns, np.float32)
        if penalty is not None:
            self._scale = (1 / np.sqrt(penalty)).astype(np.float32)
        data = weights.data * self._scale[weights.indices]
        indptr, indices, data, _, self._n_shared, self._new_column, self._factor = columns.merge_private_columns(
            weights.indptr, weights.indices, data, weights.n_columns
        )
        shared = indices < self._n_shared
        words = np.repeat(np.arange(len(weights)), np.diff(indptr))
        self._private_words = words[~shared]  # private columns are in the order of their words
        self._private = np.zeros(len(weights), np.float32)
        self._private[self._private_words] = data[~shared]
        sizes = np.bincount(words[shared], minlength=len(weights))
        self._rows = np.concatenate([[0], np.cumsum(sizes)]), indices[shared], data[shared]
        self._on_device: gpu.DeviceRidge | None = None  # the equations on the last device used

    def solve(
        self,
        targets: FloatMatrix,
        lam: float,
        *,
        tolerance: float = 0.02,
        max_iterations: int = 100,
        threads: int | None = None,
        device: Any = None,
        on_slice: Callable[[int], None] = lambda dims: None,
    ) -> Solution:
        """Return the vectors; the same bit for bit for any number of threads, as each solves its own dimensions.

        A device solves the same equations, but adds in another order and more dimensions together, so its vectors are
        as good but not identical.

        The report has lam, the most iterations of any slice of dimensions, and the residual relative to the right side
        of the equations, over all dimensions.

        Args:
            targets: The words' given vectors, (n_words, dims).
            lam: The ridge penalty, above 0.
            tolerance: Stop when the relative residual of a slice of dimensions is at most this.
            max_iterations: Stop after this many iterations.
            threads: The number of threads; None for one per core.
            device: The PyTorch device to solve on, or its name; None for Numba on the CPU.
            on_slice: Called with a number of dimensions when they are done.
        """
        if not 0 < lam < np.inf:
            raise InputError(f"lam must be above 0, got {lam}")
        if device is None:
            vectors, iterations, left, goal = self._solve(targets, lam, tolerance, max_iterations, threads, on_slice)
        else:
            if self._roots is not None:
                roots = np.empty_like(self._roots)
                roots[self._order] = self._roots
                targets = targets * roots
            vectors, iterations, left, goal = self._moved_to(device).solve(
                targets, lam, tolerance=tolerance, max_iterations=max_iterations, on_slice=on_slice
            )
        residual = float(np.sqrt(left / goal)) if goal > 0 else 0.0
        report = {"lam": lam, "iterations": iterations, "residual": float(f"{residual:.3g}")}
        return Solution(vectors, report if device is None else {**report, "device": str(device)})

    def _solve(
        self,
        targets: FloatMatrix,
        lam: float,
        tolerance: float,
        max_iterations: int,
        threads: int | None,
        on_slice: Callable[[int], None],
    ) -> tuple[FloatMatrix, int, float, float]:
        """Return the vectors, the most iterations a slice took, and the squared norms of residual and right side."""
        dims = targets.shape[1]
        shares = (lam / (lam + self._private**2)).astype(np.float32)
        private_rates = self._private / (lam + self._private**2)
        factor = self._factor * self._scale
        solved = np.empty((factor.size, dims), np.float32)

        bytes_per_dim = 4 * (4 * self._n_shared + 2 * len(targets))  # four numbers per column, two per word
        most = min(max(SLICE_BYTES // max(bytes_per_dim, 1), 1), SLICE)
        n_slices = 2 * -(-dims // (2 * most))  # an even number, like most numbers of cores
        bounds = np.linspace(0, dims, n_slices + 1).astype(int)

        def solve_slice(i: int) -> tuple[int, float, float]:
            some = slice(bounds[i], bounds[i + 1])
            part = np.ascontiguousarray(targets[self._order, some], np.float32)
            if self._roots is not None:
                part *= self._roots
            size = self._n_shared, part.shape[1]
            vectors, residual = np.empty(size, np.float32), np.empty(size, np.float32)
            pairs = line_aligned(self._n_shared, 2 * part.shape[1])
            pairs = pairs.reshape(self._n_shared, 2, pairs.shape[1] // 2)
            iterations, left, goal = conjugate_gradients(
                self._rows, shares, np.float32(lam), part, max_iterations, tolerance, vectors, residual, pairs
            )
            del residual, pairs
            words = np.empty_like(part)
            compose(*self._rows, vectors, words)
            errors = (part - words)[self._private_words]
            merged = np.concatenate([vectors, private_rates[self._private_words, None] * errors])
            columns.split_columns(merged, self._new_column, factor, solved[:, some])
            on_slice(part.shape[1])
            return int(iterations), float(left), float(goal)

        iterations, left, goal = zip(*in_threads(solve_slice, range(n_slices), threads), strict=True)
        return solved, max(iterations), sum(left), sum(goal)

    def _moved_to(self, device: Any) -> gpu.DeviceRidge:
        from pbos import gpu  # here, because importing PyTorch is slow

        if self._on_device is None or str(self._on_device.device) != str(device):
            self._on_device = gpu.DeviceRidge(**self.arrays(), device=device)
        return self._on_device

    def arrays(self) -> dict[str, Any]:
        """Return the equations as arguments of `pbos.gpu.DeviceRidge`."""
        indptr, indices, data = self._rows
        return {
            "indptr": indptr,
            "indices": indices,
            "data": data,
            "n_shared": self._n_shared,
            "private": self._private,
            "order": self._order,
            "new_column": self._new_column,
            "factor": self._factor * self._scale,
        }


def order_of_words(weights: Weights) -> npt.NDArray[np.int64]:
    """Return an order in which words that share their first columns are adjacent, so that those stay in the cache."""
    starts, sizes = weights.indptr[:-1], np.diff(weights.indptr)
    keys = np.full((4, len(weights)), -1)
    for k, key in enumerate(keys):
        key[sizes > k] = weights.indices[starts[sizes > k] + k]
    return np.lexsort(keys[::-1])
