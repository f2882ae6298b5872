"""The unit vectors nearest to a query: a fast search among rounded ones, then exact cosines of the few that may be."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.jobs.threads import blocks
from pbos.kernels.vectors import products_of_few
from pbos.words.arrays import FloatMatrix

ROUNDING = 1e-5  # more than a sum of unit vectors is off
FEW = 16  # queries; for more, NumPy's product of matrices is faster
STEPS = 32767  # what 1 is in unit vectors rounded to int16; a product of two is at most its square, which fits int32


def rounded(units: FloatMatrix) -> npt.NDArray[np.int16]:
    """Return unit vectors in whole steps: half the memory, which is what a search mostly waits for."""
    steps: npt.NDArray[np.int16] = np.rint(units * np.float32(STEPS)).astype(np.int16)
    return steps


def products(queries: npt.NDArray[np.int16], rows: npt.NDArray[np.int16]) -> npt.NDArray[Any]:
    """Return the products of rounded vectors, (n_queries, n_rows)."""
    if len(queries) < FEW:
        few: npt.NDArray[np.int32] = products_of_few(queries, rows)
        return few
    many, wide = np.empty((len(queries), len(rows)), np.float32), queries.astype(np.float32)
    for block in blocks(len(rows)):
        np.matmul(wide, rows[block].astype(np.float32).T, out=many[:, block])
    return many


def nearest(
    rough: npt.NDArray[Any],
    query: npt.NDArray[np.float32],
    units: Callable[[npt.NDArray[np.intp]], FloatMatrix],
    n: int,
) -> list[tuple[int, float]]:
    """Return the n unit vectors that are nearest to a query, as (position, cosine); of equal ones the first.

    The rough products of all vectors with the query come from rounded ones. So the candidates are compared once more,
    with the exact vectors, which `units` returns for positions.
    """
    off = STEPS * math.sqrt(query.size) + ROUNDING * STEPS**2  # at most: each number of each vector by half a step
    best = at_least(rough, n, math.ceil(2 * off))
    cosines = (units(best).astype(np.float64) * query).sum(axis=1).astype(np.float32)
    order = np.argsort(-cosines, kind="stable")[:n]
    return list(zip(best[order].tolist(), cosines[order].tolist(), strict=True))


def at_least(values: npt.NDArray[Any], n: int, slack: float = 0) -> npt.NDArray[np.intp]:
    """Return the positions of the values that are at least the nth largest minus slack, in order; all if n is too big.

    >>> at_least(np.array([0.5, 0.9, 0.1, 0.9, 0.4], np.float32), 3).tolist()
    [0, 1, 3]
    """
    if not 0 < n < values.size:
        return np.arange(values.size if n > 0 else 0)
    few = values[:: max(1, values.size // max(4096, 8 * n))]  # the nth largest of these is no larger
    best: npt.NDArray[np.intp] = np.flatnonzero(values >= np.partition(few, -n)[-n] - slack)
    best = best[values[best] >= np.partition(values[best], -n)[-n] - slack]
    return best
