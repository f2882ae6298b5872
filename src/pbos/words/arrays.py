"""Matrices of vectors, one per row: lengths, cosines, projections, principal components, files."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.errors import InputError, whole_number
from pbos.jobs.threads import blocks

FloatMatrix = npt.NDArray[np.float32]
NEAR_ZERO = 1e-6  # what evaluations take for no vector


def has_masked(values: Any) -> bool:
    """Return whether some of these numbers are masked; NumPy's own functions ignore the masks of rows in a list."""
    return any(map(np.ma.is_masked, values if isinstance(values, (list, tuple)) else (values,)))


def checked_out(out: Any, shape: tuple[int, int]) -> FloatMatrix:
    """Return an array, or raise InputError if vectors cannot be written into it."""
    expected = f"out must be a C-contiguous float32 array of shape {shape}"
    if not isinstance(out, np.ndarray) or isinstance(out, np.ma.MaskedArray):
        raise InputError(f"{expected}, got {type(out).__name__}")
    if out.shape != shape or out.dtype != np.float32 or not out.flags.c_contiguous:
        other = "" if out.flags.c_contiguous else ", not C-contiguous"
        raise InputError(f"{expected}, got {out.dtype} {out.shape}{other}")
    if not out.flags.writeable:
        raise InputError("out is read-only; pass an array that can be written")
    return out


def rows_of(matrix: Any, rows: Any) -> FloatMatrix:
    """Return some rows of a matrix, one after the other in memory however the matrix is stored."""
    return np.ascontiguousarray(matrix[rows], np.float32)


def row_lengths(matrix: FloatMatrix) -> npt.NDArray[np.float32]:
    """Return the lengths of rows, without a copy of the matrix, which NumPy would make."""
    found = np.empty(len(matrix), np.float32)
    for rows in blocks(len(matrix)):
        found[rows] = np.linalg.norm(matrix[rows], axis=1)
    return found


def unit_rows(vectors: FloatMatrix, near_zero: float = 0.0) -> FloatMatrix:
    """Scale rows to length 1; rows no longer than near_zero become zero.

    >>> unit_rows(np.array([[3e-30, 4e-30], [3e30, 4e30], [0, 0]], np.float32)).round(3)
    array([[0.6, 0.8], [0.6, 0.8], [0. , 0. ]], dtype=float32)
    """
    squares = np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64)  # those of float32 would not all fit
    norms = np.sqrt(squares).astype(np.float32)[:, None]
    return np.asarray(np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > near_zero))


def cosines(left: npt.ArrayLike, right: npt.ArrayLike) -> npt.NDArray[np.float32]:
    """Return the cosine of each row of one matrix with the same row of another; 0 where a row is zero.

    >>> cosines([[3, 4], [0, 0]], [[1, 0], [1, 0]])
    array([0.6, 0. ], dtype=float32)
    """
    if has_masked(left) or has_masked(right):
        raise InputError("cosines needs numbers, but some are masked; fill them in, or leave out these rows")
    try:
        first, second = np.asarray(left, np.float32), np.asarray(right, np.float32)
    except (TypeError, ValueError):
        raise InputError("cosines needs two matrices of numbers") from None
    if first.ndim != 2 or first.shape != second.shape:
        raise InputError(f"cosines needs two matrices of the same shape, got {first.shape} and {second.shape}")
    return np.asarray(np.einsum("ij,ij->i", unit_rows(first), unit_rows(second)))


def projection(dims: int, n: int, seed: int) -> FloatMatrix:
    """Return n random directions at right angles, as columns: (dims, n); all of them if there are no more."""
    if dims <= n:
        return np.eye(dims, dtype=np.float32)
    directions, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((dims, n)))
    return np.asarray(directions, np.float32)


def projected(vectors: Any, directions: FloatMatrix) -> FloatMatrix:
    """Return vectors @ directions, some rows at a time, so that it does not matter how the vectors are stored."""
    out = np.empty((vectors.shape[0], directions.shape[1]), np.float32)
    for rows in blocks(len(out)):
        np.matmul(rows_of(vectors, rows), directions, out=out[rows])
    return out


def principal_components(vectors: FloatMatrix, n: int) -> FloatMatrix:
    """Return the first n principal components of vectors, not centered, as columns: (dims, n)."""
    dims = vectors.shape[1]
    if whole_number("dims", n, 1) > dims:
        raise InputError(f"dims must be between 1 and the model's {dims}, got {n}")
    _, directions = np.linalg.eigh(vectors.T.astype(np.float64) @ vectors)
    largest = directions[:, ::-1][:, :n]
    signs = np.sign(largest[np.abs(largest).argmax(axis=0), np.arange(n)])  # the sign of an eigenvector is arbitrary
    return np.asarray(largest * signs, np.float32)


def held_out_rows(n_rows: int, size: int, seed: int) -> npt.NDArray[np.int64]:
    """Return the rows to hold out: `size` random ones, in ascending order."""
    return np.sort(np.random.default_rng(seed).choice(n_rows, size, replace=False))
