"""What the training words tell about each subword: the evidence that a confidence is computed from. Arrays only."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from pbos.jobs.threads import blocks, in_threads
from pbos.kernels import columns
from pbos.training.solve import NONE, Ridge
from pbos.training.tune import TOLERANCE, Run, Vector, Words, row_cosines
from pbos.words.arrays import FloatMatrix, row_lengths, rows_of
from pbos.words.confidence import Confidence
from pbos.words.weights import Weights

EVIDENCE_LAM = 0.1  # the ridge penalty of evidence, which has to be smoother than vectors
FEW = 3  # a subword in so few words may be a word of its own


def subword_evidence(
    words: Words,
    vectors: FloatMatrix,
    lam: float,
    penalty: Vector,
    reliability: npt.NDArray[np.float32] | None = None,
    run: Run | None = None,
) -> Confidence:
    """Return the evidence of a solution of `Ridge`, without the regression.

    Five of the numbers are solved for like vectors, from five facts about each training word: how close its shared
    subwords come to its vector, how close they would come without it, how rare it is, how close its vector is to the
    mean, and how long the sum of its shared subwords is. The other three are about a subword itself: how many training
    words contain it, whether they are few, and the length of its vector.

    Args:
        words: The training words.
        vectors: The solution.
        lam: As for `Ridge.solve`.
        penalty: As for `Ridge`, as is `reliability`.
        reliability: How much each word counts.
        run: Where to solve.
    """
    run = run or Run()
    weights, rows = words.weights, words.rows
    n_words = columns.count_rows(weights.indptr, weights.indices, weights.data, rows, weights.n_columns)
    mean, scale = mean_and_scale(words.targets, rows, reliability)
    left = (1 - leverages(weights, rows, lam, penalty, reliability, n_words)).astype(np.float32)
    found = np.empty((rows.size, 5), np.float32)

    def write_facts(block: slice) -> None:
        some, facts = rows[block], found[block]
        given, shared = rows_of(words.targets, some), shared_words(weights.take(some), n_words, vectors)
        without = given - (given - shared) / left[block, None]
        facts[:, 0] = row_cosines(shared, given)
        facts[:, 1] = row_cosines(without, given)
        facts[:, 3] = row_cosines(given, np.broadcast_to(mean, given.shape))
        facts[:, 4] = np.log(np.linalg.norm(shared, axis=1) / scale + 1e-3)

    in_threads(write_facts, blocks(rows.size), run.threads)
    counts = words.counts[rows]
    found[:, 2] = np.log(np.maximum(counts, counts.min(initial=1.0, where=counts > 0)))
    found -= found.mean(axis=0)
    found /= np.maximum(found.std(axis=0), 1e-6)
    facts = np.zeros((len(weights), 5), np.float32)
    facts[rows] = found
    facts = run.work.keep("facts", facts)
    ridge = Ridge(weights, penalty, rows=words.some, work=run.work)
    solved = ridge.solve(facts, EVIDENCE_LAM, tolerance=TOLERANCE, pool=run.pool, device=run.device).vectors
    evidence = np.empty((len(n_words), 8), np.float16)
    largest = float(np.finfo(np.float16).max)
    evidence[:, :5] = solved.clip(-largest, largest)
    evidence[:, 5] = np.log(np.maximum(n_words, 1))
    evidence[:, 6] = n_words <= FEW
    empty = np.zeros(0, np.float32)
    unscaled = Confidence(evidence, mean, np.array([scale], np.float32), empty, empty, empty, empty)
    return with_lengths(unscaled, row_lengths(vectors))


def with_lengths(confidence: Confidence, lengths: npt.NDArray[np.float32]) -> Confidence:
    """Return a confidence with the lengths of the subword vectors as its last evidence."""
    evidence = np.array(confidence.evidence)
    evidence[:, -1] = (lengths / confidence.scale[0]).clip(max=float(np.finfo(np.float16).max))
    return replace(confidence, evidence=evidence)


def mean_and_scale(
    targets: Any, rows: npt.NDArray[np.int64], reliability: npt.NDArray[np.float32] | None
) -> tuple[FloatMatrix, float]:
    """Return the mean of some words' given vectors, which count by reliability, and their typical length."""
    total, squares = np.zeros(targets.shape[1]), 0.0
    trust = np.ones(targets.shape[0], np.float32) if reliability is None else reliability
    for block in blocks(rows.size):
        given = rows_of(targets, rows[block]).astype(np.float64)
        total += (given * trust[rows[block], None]).sum(axis=0)
        squares += float(np.einsum("ij,ij->", given, given))
    return (total / trust[rows].sum(dtype=np.float64)).astype(np.float32), float(np.sqrt(squares / rows.size)) or 1.0


def leverages(
    weights: Weights,
    rows: npt.NDArray[np.int64],
    lam: float,
    penalty: Vector,
    reliability: npt.NDArray[np.float32] | None,
    n_words: npt.NDArray[np.int32],
) -> npt.NDArray[np.float64]:
    """Return how much of each word's own error its shared subwords take up: 0 for nothing, .9 at most.

    Takes the matrix of the regression to be diagonal. `n_words` says how many words have each subword.
    """
    matrix = weights.indptr, weights.indices, weights.data, rows
    trust = NONE if reliability is None else reliability[rows]
    sums = lam * penalty
    columns.add_squares(*matrix, trust, sums)
    inverses = np.where(n_words > 1, 1 / sums, 0.0)
    found: npt.NDArray[np.float64] = columns.sum_shares(*matrix, trust, inverses).clip(0, 0.9)
    return found


def shared_words(weights: Weights, n_words: npt.NDArray[np.int32], vectors: FloatMatrix) -> FloatMatrix:
    """Return the words' vectors without what they have for themselves: the sums over columns of two or more words."""
    data = np.where(n_words[weights.indices] > 1, weights.data, np.float32(0))
    return replace(weights, data=data).composed(vectors)
