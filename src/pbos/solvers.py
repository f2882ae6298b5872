"""Solvers: sparse weights and target vectors in, subword vectors out. Arrays only; no word is seen here."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.kernels import sgd as kernels
from pbos.weights import Weights, in_threads, thread_count

FloatMatrix = npt.NDArray[np.float32]


@dataclass(frozen=True)
class Solution:
    """Subword vectors and the mean squared error of a component, met in each epoch."""

    vectors: FloatMatrix  # (n_subwords, dims)
    losses: list[float]


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
    """Minimise the squared error of words = weights @ vectors by plain SGD, one word at a time, from zero.

    Epoch e (from 0) takes the words in a new random order with the rate lr / sqrt(1 + e). The result is the same to the
    bit for any number of threads: each trains some of the dimensions. `unit_length` (PBoS-n) couples the dimensions, so
    it runs on one thread.

    Args:
        weights: The weights of the training words, each column at most once a row.
        targets: Their given vectors, (n_words, dims).
        epochs: How often to go over the words.
        lr: The rate of the first epoch.
        seed: Fixes the orders.
        unit_length: Scale subword vectors to length 1 before summing them.
        threads: How many threads to use; None for one a core.
        on_epoch: Called with the epoch (from 1) and its loss.
    """
    if unit_length:
        threads, n_columns = 1, weights.n_columns
        matrix = (weights.indptr, weights.indices, weights.data)
    else:
        *matrix, n_columns, new_column, factor = kernels.merge_private_columns(
            weights.indptr, weights.indices, weights.data, weights.n_columns
        )
    bounds = np.linspace(0, targets.shape[1], min(thread_count(threads), targets.shape[1]) + 1).astype(int)
    slices = [slice(start, end) for start, end in itertools.pairwise(bounds)]
    target_slices = [np.ascontiguousarray(targets[:, part], np.float32) for part in slices]
    vector_slices = [np.zeros((n_columns, part.stop - part.start), np.float32) for part in slices]

    random = np.random.default_rng(seed)
    losses = []
    for epoch in range(epochs):
        order = random.permutation(len(weights))
        rate = np.float32(lr / np.sqrt(1 + epoch))

        epoch_of_slice = partial(train_slice, matrix, target_slices, vector_slices, order, rate, unit_length)
        per_dim = np.concatenate(list(in_threads(epoch_of_slice, range(len(slices)), threads)))
        losses.append(float(per_dim.sum() / max(targets.size, 1)))
        on_epoch(epoch + 1, losses[-1])

    if unit_length:
        return Solution(vector_slices[0], losses)
    vectors = np.empty((weights.n_columns, targets.shape[1]), np.float32)
    for part, trained in zip(slices, vector_slices, strict=True):
        np.multiply(trained[new_column], factor[:, None], out=vectors[:, part])
    return Solution(vectors, losses)


def train_slice(
    matrix: Sequence[npt.NDArray[Any]],
    targets: list[FloatMatrix],
    vectors: list[FloatMatrix],
    order: npt.NDArray[np.int64],
    rate: np.float32,
    unit_length: bool,
    i: int,
) -> npt.NDArray[np.float64]:
    """Train the i-th slice of the dimensions for an epoch, in place; return its losses by dimension."""
    losses: npt.NDArray[np.float64] = kernels.sgd_epoch(*matrix, targets[i], vectors[i], order, rate, unit_length)
    return losses
