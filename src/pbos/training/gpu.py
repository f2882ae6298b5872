"""Ridge regression on a GPU, with PyTorch (extra `torch`).

Imported only if a device is asked for, because importing PyTorch is slow. The module needs only NumPy and PyTorch, so
that it can be measured on a GPU machine without Numba. It also runs on CPU tensors, which is how it is tested.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import warn
from pbos.jobs.threads import blocks
from pbos.words.arrays import FloatMatrix

try:
    import torch
except ImportError:
    torch = None  # find_device reports it
else:
    with warnings.catch_warnings():  # PyTorch warns once that its sparse matrices are in beta
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [1.0])

Tensor = Any  # of PyTorch
Array = npt.NDArray[Any]

MEMORY_SHARE = 0.4  # of the device's free memory to use, since others may use it too
MEMORY_ELSEWHERE = 1 << 31  # bytes to use if the device cannot tell how much is free
COPIED = 1 << 23  # numbers copied back at a time: 32 MiB
INDEXED = 2**31 - 1  # numbers in a dense matrix, at most: some sparse products use 32-bit indices
LEAST_ITERATIONS, LOOSE = 4, 10  # as in pbos.kernels.solving, which needs Numba
SQUARED = 1 << 26  # numbers squared at a time: 256 MiB


def find_device(name: str) -> Any:
    """Return the PyTorch device of this name; None, with a warning, if a small product on it fails."""
    if torch is None:
        problem = f'the device "{name}" needs PyTorch, which is not installed (pip install "pbos[torch]")'
    else:
        try:
            one = torch.ones(1, 1, device=name)
            pointers, column = torch.tensor([0, 1], device=name), torch.tensor([0], device=name)
            multiply(csr(pointers, column, one[0], (1, 1)), one, torch.zeros_like(one))
            return torch.device(name)
        except (RuntimeError, AssertionError, NotImplementedError) as error:  # PyTorch has no error of its own for this
            reason = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
            problem = f'PyTorch cannot use the device "{name}" ({reason})'
    warn(f"{problem}; training falls back to the CPU")
    return None


class DeviceRidge:
    """The equations of `pbos.training.solve.Ridge` for the shared columns, stored and solved on a device.

    Let B be the shared columns, with each word's weights multiplied by the root of its share. This solves (B'B + lam I)
    S = B' (root of the share * targets). The curvature along d is |B d|² + lam |d|², so the step is known before the
    product with B', which is subtracted from the residual directly. A dimension needs three numbers per column (S,
    residual, direction) and one per word.
    """

    def __init__(self, rows: tuple[Array, Array, Array], private: Array, n_shared: int, device: Any) -> None:
        """Copy the weights of the shared columns (CSR arrays) and of each word's private column to the device."""
        self.device = torch.device(device)
        self._shape = private.size, n_shared
        indptr, indices, data = rows
        index = np.int32 if max(indices.size, *self._shape) < 2**31 else np.int64
        self._private, values = self._moved(private), self._moved(data)
        self._rows = self._moved(indptr.astype(index)), self._moved(indices.astype(index, copy=False)), values
        self._columns = transposed(*self._rows, n_shared)

    def _moved(self, array: Array) -> Tensor:
        """Return an array on the device; on the CPU it may share memory with the array."""
        return torch.from_numpy(array if array.flags.writeable else array.copy()).to(self.device)

    def slices(self, dims: int) -> list[slice]:
        """Return slices of the dimensions, of about the same size, that fit the device's memory."""
        (n_words, n_shared), free = self._shape, MEMORY_ELSEWHERE
        if self.device.type == "cuda":
            cached = torch.cuda.memory_reserved(self.device) - torch.cuda.memory_allocated(self.device)  # by PyTorch
            free = int(MEMORY_SHARE * (torch.cuda.mem_get_info(self.device)[0] + cached))
        memory = (free - 4 * SQUARED) // max(4 * (3 * n_shared + n_words), 1)
        most = max(min(memory, INDEXED // max(n_words, n_shared, 1)), 1)
        size = -(-dims // -(-dims // most))
        size += -size % 4 if size + -size % 4 <= most else 0  # rows that are a multiple of 16 bytes are read faster
        return list(blocks(dims, size))

    def solve(
        self, targets: FloatMatrix, lam: float, max_iterations: int, tolerance: float
    ) -> tuple[FloatMatrix, FloatMatrix, int, Array, Array, Array]:
        """Solve for some dimensions of the given vectors, (n_words, dims), in the order of the rows.

        Returns the vectors of the shared columns, the words that these add up to, and what `conjugate_gradients` does.
        """
        roots = (lam / (lam + self._private**2)).sqrt_()
        words = torch.tensor(targets, dtype=torch.float32, device=self.device).mul_(roots[:, None])
        shared = words.new_zeros(self._shape[1], words.shape[1])
        iterations, facts = 0, (0.0, 0.0, 0.0)
        if self._rows[2].numel():
            indptr, indices, data = self._rows
            by_weight = torch.repeat_interleave(roots, indptr.diff(), output_size=data.numel())
            b = csr(indptr, indices, by_weight.mul_(data), self._shape)
            indptr, indices, data = self._columns
            transpose = csr(indptr, indices, roots.index_select(0, indices).mul_(data), self._shape[::-1])
            iterations, facts = conjugate_gradients(b, transpose, lam, words, shared, tolerance, max_iterations)
            multiply(csr(*self._rows, self._shape), shared, words)
        else:
            words.zero_()
        least, above, bound = np.array(facts)[:, None]
        return copied_back(shared), copied_back(words), iterations, least, above, bound


def conjugate_gradients(
    b: Tensor, transpose: Tensor, lam: float, words: Tensor, vectors: Tensor, tolerance: float, max_iterations: int
) -> tuple[int, tuple[float, float, float]]:
    """Solve (B'B + lam I) vectors = B' words, in place; `vectors` must be zero, `words` is overwritten.

    Uses the preconditioner and the rule for stopping of `pbos.kernels.solving.conjugate_gradients`. Returns the number
    of iterations; over all dimensions the sum that is minimized, and about and at most how far it is above its minimum.
    """
    sums = [float(squared_norms(words).sum())]
    residual = torch.zeros_like(vectors)
    multiply(transpose, words, residual)
    direction = torch.zeros_like(vectors)
    inverses = vectors.new_zeros(len(vectors), 1)
    squares = csr(transpose.crow_indices(), transpose.col_indices(), transpose.values().square(), transpose.shape)
    multiply(squares, words.new_ones(len(words), 1), inverses)
    del squares
    inverses.add_(lam).reciprocal_()
    roots = inverses.sqrt()
    left, scaled = float(squared_norms(residual).sum()), squared_norms(residual, roots)
    ratio = torch.zeros_like(scaled)
    while True:
        iteration, now = len(sums) - 1, sums[-1]
        above, bound = (sums[iteration // 2] - now) / 3, left / lam
        enough = iteration >= LEAST_ITERATIONS and above <= tolerance * now and bound <= LOOSE * tolerance * now
        if enough or iteration == max_iterations:
            return iteration, (now, above, bound)
        direction.mul_(ratio).addcmul_(residual, inverses)
        multiply(b, direction, words)
        curvature = squared_norms(words).add_(squared_norms(direction), alpha=lam)
        step = torch.where(curvature > 0, scaled / curvature, 0.0)
        vectors.addcmul_(direction, step)
        multiply(transpose, words.mul_(step), residual, subtract=True)
        residual.addcmul_(direction, step, value=-lam)
        before, scaled = scaled, squared_norms(residual, roots)
        ratio = torch.where(before > 0, scaled / before, 0.0)
        sums.append(now - float((step.double() * before).sum()))
        left = float(squared_norms(residual).sum())


def squared_norms(matrix: Tensor, factors: Tensor | None = None) -> Tensor:
    """Return the squared norm of each column of a matrix, with its rows multiplied by factors."""
    if factors is None:
        return torch.linalg.vector_norm(matrix, dim=0).square_()
    total = matrix.new_zeros(matrix.shape[1])
    for rows in row_blocks(matrix, SQUARED):
        total += squared_norms(matrix[rows] * factors[rows])
    return total


def csr(indptr: Tensor, indices: Tensor, data: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a PyTorch sparse matrix, without checking its arrays."""
    return torch.sparse_csr_tensor(indptr, indices, data, size=shape, check_invariants=False)


def multiply(matrix: Tensor, dense: Tensor, out: Tensor, *, subtract: bool = False) -> None:
    """Write a sparse matrix times a dense one into `out`, or subtract it from `out`."""
    # `@` would need two more matrices of the size of the result.
    torch.addmm(out, matrix, dense, beta=1 if subtract else 0, alpha=-1 if subtract else 1, out=out)


def transposed(indptr: Tensor, indices: Tensor, data: Tensor, n_columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the transpose of a CSR matrix as CSR; rows stay in ascending order within each column."""
    columns, order = torch.sort(indices, stable=True)
    bounds = torch.arange(n_columns + 1, dtype=indices.dtype, device=indices.device)
    new_indptr = torch.searchsorted(columns, bounds).to(indptr.dtype)
    rows = torch.arange(indptr.numel() - 1, dtype=indices.dtype, device=indices.device)
    new_indices = torch.repeat_interleave(rows, indptr.diff(), output_size=data.numel()).index_select(0, order)
    return new_indptr, new_indices, data.index_select(0, order)


def row_blocks(matrix: Any, numbers: int) -> Iterator[slice]:
    """Yield slices of the rows of a matrix with at most `numbers` numbers each, but at least one row."""
    return blocks(len(matrix), max(numbers // max(matrix.shape[1], 1), 1))


def copied_back(tensor: Tensor) -> FloatMatrix:
    """Return a matrix on a device as an array, through page-locked memory: six times as fast as without."""
    found = np.empty(tuple(tensor.shape), np.float32)
    for rows in row_blocks(found, COPIED):
        staged = torch.empty(tensor[rows].shape, pin_memory=tensor.is_cuda).copy_(tensor[rows])
        torch.from_numpy(found[rows]).copy_(staged)  # PyTorch uses all cores
    return found
