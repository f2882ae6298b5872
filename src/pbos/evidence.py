"""What the training words tell about each subword: the evidence that a confidence is computed from. Arrays only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.arrays import FloatMatrix
from pbos.confidence import Confidence
from pbos.solvers import Ridge
from pbos.threads import in_threads
from pbos.tuning import Vector, row_cosines
from pbos.weights import Weights

EVIDENCE_LAM = 0.1  # the ridge penalty of evidence, which has to be smoother than vectors
FEW = 3  # a subword in so few words may be a word of its own
BLOCK = 4096  # words composed at a time, by each thread


def unfitted(
    weights: Weights,
    vectors: FloatMatrix,
    targets: FloatMatrix,
    counts: Vector,
    *,
    lam: float,
    penalty: Vector,
    reliability: npt.NDArray[np.float32] | None,
    threads: int | None = None,
    device: Any = None,
) -> Confidence:
    """Return the evidence of a solution of `Ridge`, without the regression.

    Five of the numbers are solved for like vectors, from five facts about each training word: how close its shared
    subwords come to its vector, how close they would come without it, how rare it is, how close its vector is to the
    mean, and how long the sum of its shared subwords is. The other three are about a subword itself: how many training
    words contain it, whether they are few, and the length of its vector.

    Args:
        weights: As for `Ridge`, as are `penalty` and `reliability`.
        vectors: The solution.
        targets: As for `Ridge.solve`, as are `lam`, `threads` and `device`.
        counts: How often each word occurs.
        lam: The ridge penalty.
        penalty: The penalty of each vector.
        reliability: How much each word counts.
        threads: The number of threads.
        device: The PyTorch device.
    """
    n_words = np.bincount(weights.indices, minlength=weights.n_columns)
    mean, scale = mean_and_scale(targets, reliability)
    left = (1 - leverages(weights, lam, penalty, reliability)).astype(np.float32)
    facts = np.empty((len(weights), 5), np.float32)

    def write_facts(first: int) -> None:
        rows = np.arange(first, min(first + BLOCK, len(weights)))
        given, shared = targets[rows], shared_words(weights.take(rows), n_words, vectors)
        without = given - (given - shared) / left[rows, None]
        facts[rows, 0] = row_cosines(shared, given)
        facts[rows, 1] = row_cosines(without, given)
        facts[rows, 3] = row_cosines(given, np.broadcast_to(mean, given.shape))
        facts[rows, 4] = np.log(np.linalg.norm(shared, axis=1) / scale + 1e-3)

    in_threads(write_facts, range(0, len(weights), BLOCK), threads)
    facts[:, 2] = np.log(np.maximum(counts, counts.min(initial=1.0, where=counts > 0)))
    facts -= facts.mean(axis=0)
    facts /= np.maximum(facts.std(axis=0), 1e-6)
    solved = Ridge(weights, penalty).solve(facts, EVIDENCE_LAM, tolerance=0.1, threads=threads, device=device).vectors
    lengths = np.linalg.norm(vectors, axis=1) / scale
    evidence = np.column_stack([solved, np.log(np.maximum(n_words, 1)), n_words <= FEW, lengths])
    empty = np.zeros(0, np.float32)
    largest = float(np.finfo(np.float16).max)
    bits = evidence.clip(-largest, largest).astype(np.float16)
    return Confidence(bits, mean, np.array([scale], np.float32), empty, empty, empty, empty)


def in_full_space(
    confidence: Confidence, vectors: FloatMatrix, targets: FloatMatrix, reliability: npt.NDArray[np.float32] | None
) -> Confidence:
    """Return a confidence that was fitted in a projection, for the vectors of a model in the space of the targets."""
    mean, scale = mean_and_scale(targets, reliability)
    evidence = confidence.evidence.copy()
    evidence[:, -1] = np.linalg.norm(vectors, axis=1) / scale
    return replace(confidence, evidence=evidence, mean=mean, scale=np.array([scale], np.float32))


def mean_and_scale(targets: FloatMatrix, reliability: npt.NDArray[np.float32] | None) -> tuple[FloatMatrix, float]:
    """Return the mean of the given vectors and their typical length."""
    mean = np.average(targets, axis=0, weights=reliability).astype(np.float32)
    return mean, float(np.sqrt(np.mean(np.einsum("ij,ij->i", targets, targets, dtype=np.float64)))) or 1.0


def leverages(
    weights: Weights, lam: float, penalty: Vector, reliability: npt.NDArray[np.float32] | None
) -> npt.NDArray[np.float64]:
    """Return how much of each word's own error its shared subwords take up: 0 for nothing, .9 at most.

    Takes the matrix of the regression to be diagonal.
    """
    words = np.repeat(np.arange(len(weights)), np.diff(weights.indptr))
    squares = weights.data.astype(np.float64) ** 2
    if reliability is not None:
        squares *= reliability[words]
    sums = np.bincount(weights.indices, squares, minlength=weights.n_columns)
    shared = np.bincount(weights.indices, minlength=weights.n_columns) > 1
    shares = squares * shared[weights.indices] / (lam * penalty + sums)[weights.indices]
    found: npt.NDArray[np.float64] = np.bincount(words, shares, minlength=len(weights)).clip(0, 0.9)
    return found


def shared_words(weights: Weights, n_words: npt.NDArray[np.int64], vectors: FloatMatrix) -> FloatMatrix:
    """Return the words' vectors without what they have for themselves: the sums over columns of two or more words."""
    data = np.where(n_words[weights.indices] > 1, weights.data, np.float32(0))
    return replace(weights, data=data).composed(vectors)
